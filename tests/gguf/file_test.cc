// One GGUF file, right in every kind of value and wrong in every way that we could think of.
#include "gguf/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kit/gguf_writer.h"
#include "kit/temp_dir.h"

namespace quire::gguf {
namespace {

using ::quire::test::GgufWriter;
using ::quire::test::raw_bytes;
using ::testing::AllOf;
using ::testing::HasSubstr;

Result<File> parse(const std::string& file) { return File::parse(std::as_bytes(std::span(file)), "m.gguf"); }
std::string error_of(const std::string& file) {
  auto parsed = parse(file);
  return parsed.ok() ? "accepted" : parsed.error().message;
}
ErrorCode code_of(const std::string& file) {
  auto parsed = parse(file);
  return parsed.ok() ? ErrorCode::kInternal : parsed.error().code;
}

constexpr std::uint32_t kF32 = 0, kQ4_1 = 3;

TEST(GgufFile, ReadsEveryKindOfValue) {
  GgufWriter w;
  w.text("text", "hé").u32("u32", 7).f32("f32", 1e-5f).boolean("yes", true).texts("texts", {"a", "", "b"}).i32s("i32s", {1, -2}).f32s("f32s", {0.5f});
  w.pair("u8", GgufWriter::kU8, raw_bytes(std::uint8_t{200})).pair("i8", GgufWriter::kI8, raw_bytes(std::int8_t{-3})).pair("i16", GgufWriter::kI16, raw_bytes(std::int16_t{-300}));
  w.pair("u16", GgufWriter::kU16, raw_bytes(std::uint16_t{65535})).pair("u64", GgufWriter::kU64, raw_bytes(std::uint64_t{1} << 40)).pair("i64", GgufWriter::kI64, raw_bytes(std::int64_t{-5}));
  w.pair("i32", GgufWriter::kI32, raw_bytes(std::int32_t{-9})).pair("f64", GgufWriter::kF64, raw_bytes(0.1));
  w.pair("flags", GgufWriter::kArray, raw_bytes(std::uint32_t{7}) + raw_bytes(std::uint64_t{2}) + std::string("\x01\x00", 2));
  const std::string bytes = w.file();
  auto file = parse(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto& values = file->metadata().values();
  EXPECT_EQ(values.size(), 16u);
  EXPECT_EQ(values.at("text"), Value(std::string_view("hé")));
  EXPECT_EQ(values.at("yes"), Value(true));
  EXPECT_EQ(values.at("f32"), Value(static_cast<double>(1e-5f)));
  EXPECT_EQ(values.at("f64"), Value(0.1));
  EXPECT_EQ(values.at("texts"), Value(Strings{"a", "", "b"}));
  EXPECT_EQ(values.at("i32s"), Value(Integers{1, -2}));
  EXPECT_EQ(values.at("f32s"), Value(Reals{0.5}));
  EXPECT_EQ(values.at("flags"), Value(Integers{1, 0}));
  for (const auto& [key, n] : {std::pair("u8", 200LL), {"i8", -3LL}, {"i16", -300LL}, {"u16", 65535LL}, {"u32", 7LL}, {"i32", -9LL}, {"u64", 1LL << 40}, {"i64", -5LL}})
    EXPECT_EQ(values.at(key), Value(std::int64_t{n})) << key;
  EXPECT_EQ(file->metadata().get<std::int64_t>("u32").value(), 7);
  EXPECT_EQ(file->metadata().get<std::int64_t>("absent").value(), std::nullopt);
  EXPECT_THAT(file->metadata().get<std::int64_t>("text").error().message, AllOf(HasSubstr("\"text\""), HasSubstr("an integer")));
}

TEST(GgufFile, ReadsTensorsOutermostLengthFirst) {
  const std::string bytes = GgufWriter().tensor("w", {32, 3}, kQ4_1, std::string(60, 'q')).tensor("n", {5}, kF32, std::string(20, 'f')).file();
  auto file = parse(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_EQ(file->tensors().size(), 2u);
  EXPECT_EQ(file->tensors()[0].name, "w");
  EXPECT_EQ(file->tensors()[0].type, TensorType::kQ4_1);
  EXPECT_EQ(file->tensors()[0].shape, (std::vector<std::int64_t>{3, 32}));
  EXPECT_EQ(file->tensors()[0].bytes.size(), 60u);
  EXPECT_EQ(file->tensors()[1].shape, (std::vector<std::int64_t>{5}));
  EXPECT_EQ(std::to_integer<char>(file->tensors()[1].bytes[0]), 'f');
  EXPECT_TRUE(parse(bytes + std::string(12, '\0')).ok());  // the last tensor may be padded to the alignment
  EXPECT_TRUE(parse(GgufWriter(2).tensor("n", {5}, kF32, std::string(20, 'f')).file()).ok());
}

TEST(GgufFile, AlignmentIsTheFilesOwn) {
  GgufWriter w;
  w.u32("general.alignment", 64).tensor("n", {16}, kF32, std::string(64, 'f'));
  EXPECT_TRUE(parse(w.file(64)).ok());
  for (const std::uint32_t bad : {0u, 4u, 48u, 1u << 20}) EXPECT_THAT(error_of(GgufWriter().u32("general.alignment", bad).file()), HasSubstr("power of two")) << bad;
  EXPECT_THAT(error_of(GgufWriter().text("general.alignment", "32").file()), HasSubstr("must be an integer"));
}

TEST(GgufFile, OtherVersionsAreRefusedByName) {
  EXPECT_THAT(error_of(GgufWriter(1).file()), HasSubstr("version 1"));
  EXPECT_THAT(error_of(GgufWriter(0x03000000).file()), HasSubstr("big-endian"));
  EXPECT_THAT(error_of(GgufWriter(4).file()), HasSubstr("version 4"));
  EXPECT_THAT(error_of(GgufWriter(0).file()), HasSubstr("version 0"));
  EXPECT_EQ(code_of(GgufWriter(1).file()), ErrorCode::kUnsupported);
  EXPECT_THAT(error_of("GGML" + GgufWriter().file().substr(4)), HasSubstr("not with \"GGUF\""));
  EXPECT_THAT(error_of(""), HasSubstr("truncated"));
  EXPECT_THAT(error_of(GgufWriter().u32("split.count", 3).file()), HasSubstr("one of 3 parts"));
  EXPECT_TRUE(parse(GgufWriter().u32("split.count", 1).file()).ok());
}

TEST(GgufFile, MetadataIsRefusedByKey) {
  EXPECT_THAT(error_of(GgufWriter().u32("a", 1).u32("a", 1).file()), HasSubstr("\"a\" stands twice"));
  EXPECT_THAT(error_of(GgufWriter().u32("", 1).file()), HasSubstr("is empty"));
  EXPECT_THAT(error_of(GgufWriter().pair("k", static_cast<GgufWriter::ValueType>(13), "x").file()), AllOf(HasSubstr("\"k\""), HasSubstr("value type 13")));
  EXPECT_THAT(error_of(GgufWriter().pair("k", GgufWriter::kBool, "\x02").file()), HasSubstr("boolean of value 2"));
  EXPECT_THAT(error_of(GgufWriter().pair("k", GgufWriter::kU64, raw_bytes(std::uint64_t{1} << 63)).file()), HasSubstr("above 2^63"));
  const auto array = [](std::uint32_t type, std::uint64_t count) { return raw_bytes(type) + raw_bytes(count); };
  EXPECT_THAT(error_of(GgufWriter().pair("k", GgufWriter::kArray, array(9, 0)).file()), HasSubstr("array of arrays"));
  EXPECT_THAT(error_of(GgufWriter().pair("k", GgufWriter::kArray, array(13, 0)).file()), HasSubstr("element type 13"));
  EXPECT_THAT(error_of(GgufWriter().pair("k", GgufWriter::kArray, array(4, (1u << 24) + 1)).file()), HasSubstr("at most"));
  EXPECT_THAT(error_of(GgufWriter().pair("k", GgufWriter::kArray, array(4, 1u << 24)).file()), HasSubstr("truncated"));
  EXPECT_THAT(error_of(GgufWriter().pair("k", GgufWriter::kArray, array(8, UINT64_MAX)).file()), HasSubstr("at most"));
  EXPECT_THAT(error_of(GgufWriter().pair("k", GgufWriter::kString, raw_bytes(UINT64_MAX)).file()), HasSubstr("at most"));
  EXPECT_THAT(error_of(GgufWriter().pair("k", GgufWriter::kString, raw_bytes(std::uint64_t{1000})).file()), HasSubstr("truncated"));
}

TEST(GgufFile, TensorsAreRefusedByName) {
  const auto refused = [](const std::vector<std::uint64_t>& shape, std::uint32_t type) { return error_of(GgufWriter().tensor("w", shape, type, std::string(64, 'x')).file()); };
  EXPECT_THAT(refused({256}, 17), AllOf(HasSubstr("\"w\""), HasSubstr("IQ2_XS (17)"), HasSubstr("Q4_K")));
  EXPECT_EQ(code_of(GgufWriter().tensor("w", {32}, 10, std::string(64, 'x')).file()), ErrorCode::kUnsupported);
  EXPECT_THAT(refused({33}, kQ4_1), HasSubstr("no whole blocks of Q4_1"));
  EXPECT_THAT(refused({}, kF32), HasSubstr("0 dimensions"));
  EXPECT_THAT(refused({1, 1, 1, 1, 1}, kF32), HasSubstr("5 dimensions"));
  EXPECT_THAT(refused({16, 0}, kF32), HasSubstr("dimension of 0"));
  EXPECT_THAT(refused({std::uint64_t{1} << 63}, kF32), HasSubstr("dimension of"));
  EXPECT_THAT(refused({std::uint64_t{1} << 31, std::uint64_t{1} << 31}, kF32), HasSubstr("overflows"));
  EXPECT_THAT(refused({std::uint64_t{1} << 62}, kF32), HasSubstr("overflows"));
  EXPECT_THAT(refused({17}, kF32), HasSubstr("truncated"));
  EXPECT_THAT(refused({8}, kF32), HasSubstr("belong to no tensor"));
  EXPECT_THAT(error_of(GgufWriter().tensor("w", {8}, kF32, std::string(32, 'x')).tensor("w", {8}, kF32, std::string(32, 'x')).file()), HasSubstr("\"w\" stands twice"));
  EXPECT_THAT(error_of(GgufWriter().tensor_header("", {8}, kF32, 0).file()), HasSubstr("empty name"));
}

TEST(GgufFile, TensorsMustCoverTheDataExactly) {
  const auto two = [](std::uint64_t first, std::uint64_t second, std::size_t data) {
    return error_of(GgufWriter().tensor_header("a", {8}, kF32, first).tensor_header("b", {8}, kF32, second).data(std::string(data, 'x')).file());
  };
  EXPECT_EQ(two(0, 32, 64), "accepted");
  EXPECT_EQ(two(32, 0, 64), "accepted");
  EXPECT_THAT(two(0, 0, 64), HasSubstr("overlapping"));
  EXPECT_THAT(two(0, 16, 64), HasSubstr("overlapping"));
  EXPECT_THAT(two(0, 64, 96), HasSubstr("leaving a gap"));
  EXPECT_THAT(two(0, 40, 96), HasSubstr("not aligned to 32"));
  EXPECT_THAT(two(0, 32, 63), HasSubstr("truncated"));
  EXPECT_THAT(two(0, UINT64_MAX - 31, 64), HasSubstr("leaving a gap"));
}

TEST(GgufFile, CountsAreLimited) {
  const std::string head = "GGUF" + raw_bytes(std::uint32_t{3});
  EXPECT_THAT(error_of(head + raw_bytes(UINT64_MAX) + raw_bytes(std::uint64_t{0})), HasSubstr("tensors, at most"));
  EXPECT_THAT(error_of(head + raw_bytes(std::uint64_t{0}) + raw_bytes(UINT64_MAX)), HasSubstr("metadata pairs, at most"));
  EXPECT_THAT(error_of(head + raw_bytes(std::uint64_t{1000}) + raw_bytes(std::uint64_t{0})), HasSubstr("truncated"));
}

TEST(GgufFile, IsMappedFromDisk) {
  const test::TempDir dir;
  const std::string path = dir.write("m.gguf", GgufWriter().text("k", "v").tensor("n", {8}, kF32, std::string(32, 'f')).file());
  EXPECT_TRUE(is_gguf_path(path));
  EXPECT_FALSE(is_gguf_path(dir.path()));
  EXPECT_FALSE(is_gguf_path(dir.path() + "/other.gguf"));
  auto file = File::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(std::get<std::string_view>(*file->metadata().find("k")), "v");
  EXPECT_EQ(std::to_integer<char>(file->tensors()[0].bytes[31]), 'f');
  EXPECT_THAT(File::open(dir.write("bad.gguf", "GGU")).error().message, HasSubstr("bad.gguf"));
}

}  // namespace
}  // namespace quire::gguf
