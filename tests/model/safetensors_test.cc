// One safetensors file, right and wrong in every way that we could think of, and then at random.
#include "model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "checkpoint_files.h"
#include "kit/seed.h"

namespace quire::model::test {
namespace {

using ::quire::test::seeded_rng;
using ::testing::HasSubstr;

Result<SafetensorsHeader> parse(const std::string& file) { return parse_safetensors(std::as_bytes(std::span(file)), "f.safetensors"); }

std::string error_of(const std::string& file) {
  auto header = parse(file);
  return header.ok() ? "accepted" : header.error().message;
}

// One tensor "t" with the given entry fields over `data_bytes` of data.
std::string error_of_entry(const std::string& dtype, const std::string& shape, const std::string& offsets, std::size_t data_bytes) {
  return error_of(safetensors_file("{" + entry("t", dtype, shape, offsets) + "}", std::string(data_bytes, 'x')));
}

std::string small_file() {
  return safetensors_file(R"({"__metadata__":{"format":"pt"},)" + entry("b", "F32", "[2,3]", "[4,28]") + "," + entry("a", "F16", "[2]", "[0,4]") +
                              "," + entry("empty", "I64", "[0,5]", "[28,28]") + "," + entry("scalar", "U8", "[]", "[28,29]") + "}   ",
                          "abcdefghijklmnopqrstuvwxyz012");
}

TEST(Safetensors, ReadsAValidFileInPositionOrder) {
  auto header = parse(small_file());
  ASSERT_TRUE(header.ok()) << header.error().message;
  ASSERT_EQ(header->entries.size(), 4u);
  EXPECT_EQ(header->entries[0].name, "a");
  EXPECT_EQ(header->entries[1].name, "b");
  EXPECT_EQ(header->entries[1].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(header->entries[2].name, "empty");
  EXPECT_EQ(header->entries[3].name, "scalar");
  EXPECT_EQ(small_file().substr(header->data_offset, 3), "abc");
}

TEST(Safetensors, EveryKnownDtypeHasItsSize) {
  const std::map<std::string, std::size_t> sizes = {{"F64", 8},     {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1},
                                                    {"F8_E5M2", 1}, {"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},
                                                    {"U64", 8},     {"U32", 4}, {"U16", 2}, {"U8", 1},   {"BOOL", 1}};
  for (const auto& [dtype, size] : sizes) {
    EXPECT_EQ(error_of_entry(dtype, "[3]", "[0," + std::to_string(3 * size) + "]", 3 * size), "accepted") << dtype;
    EXPECT_THAT(error_of_entry(dtype, "[3]", "[0," + std::to_string(3 * size - 1) + "]", 3 * size - 1),
                HasSubstr("takes " + std::to_string(3 * size) + " bytes"))
        << dtype;
  }
}

TEST(Safetensors, NoTensorsAtAllIsAValidFile) {
  EXPECT_EQ(error_of(safetensors_file("{}", "")), "accepted");
  EXPECT_THAT(error_of(safetensors_file("{}", "x")), HasSubstr("1 bytes at the end of the data section belong to no tensor"));
}

TEST(Safetensors, LyingEntriesAreRefused) {
  struct Case {
    const char *dtype, *shape, *offsets;
    std::size_t data;
    const char* message;
  };
  const Case cases[] = {
      {"F32", "[2]", "[0,4]", 4, "shape [2] of F32 takes 8 bytes, data_offsets span 4"},
      {"F32", "[1]", "[0,8]", 8, "takes 4 bytes, data_offsets span 8"},
      {"F32", "[4611686018427387904,4]", "[0,4]", 4, "overflows"},
      {"F32", "[4611686018427387904]", "[0,4]", 4, "overflows"},
      {"U8", "[4294967296,4294967296]", "[0,4]", 4, "overflows"},
      {"U8", "[4611686018427387904,4,0]", "[0,0]", 0, "overflows"},
      {"F32", "[18446744073709551615]", "[0,4]", 4, "not a non-negative integer"},
      {"F32", "[9223372036854775808]", "[0,4]", 4, "not a non-negative integer"},
      {"F32", "[-1]", "[0,4]", 4, "holds -1"},
      {"F32", "[1.0]", "[0,4]", 4, "not a non-negative integer"},
      {"F32", "[1e0]", "[0,4]", 4, "not a non-negative integer"},
      {"F32", "[\"1\"]", "[0,4]", 4, "not a non-negative integer"},
      {"F32", "[null]", "[0,4]", 4, "not a non-negative integer"},
      {"F32", "1", "[0,4]", 4, "shape must be a list"},
      {"F32", "null", "[0,4]", 4, "shape must be a list"},
      {"F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]", 4, "9 dimensions"},
      {"F32", "[1]", "[4,0]", 4, "leave the data section"},
      {"F32", "[1]", "[0,5]", 4, "leave the data section"},
      {"F32", "[1]", "[4,8]", 4, "leave the data section"},
      {"F32", "[1]", "[0,4]", 3, "leave the data section of 3 bytes"},
      {"F32", "[1]", "[-4,0]", 4, "holds -4"},
      {"F32", "[1]", "[0]", 4, "data_offsets must be [begin, end]"},
      {"F32", "[1]", "[0,4,8]", 4, "data_offsets must be [begin, end]"},
      {"F32", "[1]", "\"0,4\"", 4, "data_offsets must be a list"},
      {"F32", "[1]", "[9223372036854775807,9223372036854775807]", 4, "leave the data section"},
      {"F32", "[1]", "[1,5]", 5, "leaving a gap after byte 0"},
      {"F32", "[1]", "[0,4]", 5, "1 bytes at the end"},
      {"F4", "[1]", "[0,1]", 1, "dtype \"F4\" is not known"},
      {"F8_E8M0", "[1]", "[0,1]", 1, "not known"},
      {"C64", "[1]", "[0,8]", 8, "not known"},
      {"f32", "[1]", "[0,4]", 4, "not known"},
      {"", "[1]", "[0,4]", 4, "not known"},
  };
  for (const Case& c : cases)
    EXPECT_THAT(error_of_entry(c.dtype, c.shape, c.offsets, c.data), HasSubstr(c.message)) << c.dtype << c.shape << c.offsets;
}

TEST(Safetensors, EntriesThatOverlapOrLeaveGapsAreRefused) {
  const auto two = [](const std::string& first, const std::string& second, std::size_t data) {
    return error_of(safetensors_file("{" + entry("a", "U8", "[4]", first) + "," + entry("b", "U8", "[4]", second) + "}", std::string(data, 'x')));
  };
  EXPECT_EQ(two("[0,4]", "[4,8]", 8), "accepted");
  EXPECT_EQ(two("[4,8]", "[0,4]", 8), "accepted");
  EXPECT_THAT(two("[0,4]", "[3,7]", 7), HasSubstr("\"b\" starts at byte 3 of the data section, overlapping the tensor before it, which ends at 4"));
  EXPECT_THAT(two("[0,4]", "[0,4]", 4), HasSubstr("overlapping"));
  EXPECT_THAT(two("[0,4]", "[5,9]", 9), HasSubstr("leaving a gap after byte 4"));
  EXPECT_THAT(error_of(safetensors_file("{" + entry("a", "U8", "[8]", "[0,8]") + "," + entry("z", "U8", "[0]", "[4,4]") + "}", "12345678")),
              HasSubstr("overlapping"))
      << "an empty tensor inside another";
}

TEST(Safetensors, HeadersThatAreNoHeadersAreRefused) {
  struct Case {
    std::string header;
    const char* message;
  };
  const Case cases[] = {
      {"", "must start with '{'"},
      {" {}", "must start with '{'"},
      {"[]", "must start with '{'"},
      {"{", "invalid JSON"},
      {"{}}", "extra text"},
      {std::string("{}\0", 3), "extra text"},
      {R"({"t":1})", "must be an object with dtype"},
      {R"({"t":{}})", "dtype must be a string"},
      {R"({"t":{"dtype":3}})", "dtype must be a string"},
      {R"({"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", "empty name"},
      {R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"more":1}})", "unknown field \"more\""},
      {R"({"t":{"dtype":"U8","shape":[0]}})", "data_offsets must be a list"},
      {R"({"__metadata__":[]})", "__metadata__ must be an object"},
      {R"({"__metadata__":{"a":1}})", "__metadata__ entry \"a\" must be a string"},
      {"{" + entry("t", "U8", "[0]", "[0,0]") + "," + entry("t", "U8", "[0]", "[0,0]") + "}", "\"t\" stands twice"},
      {"{" + entry("t", "U8", "[0]", "[0,0]") + "," + entry("\\u0074", "U8", "[0]", "[0,0]") + "}", "\"t\" stands twice"},
      {R"({"t":{"dtype":"U8","dtype":"F32","shape":[0],"data_offsets":[0,0]}})", "\"dtype\" stands twice"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", "\"a\" stands twice"},
      {"{\"t\":" + std::string(50000, '[') + std::string(50000, ']') + "}", "nested deeper"},
      {std::string(200000, '{'), "invalid JSON"},
      {"{\"t\":" + std::string(200000, '['), "nested deeper"},
      {"{\"\xff\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", "invalid JSON"},
  };
  for (const Case& c : cases) EXPECT_THAT(error_of(safetensors_file(c.header, "")), HasSubstr(c.message)) << c.header.substr(0, 100);
}

TEST(Safetensors, HeaderLengthsThatLieAreRefused) {
  const auto with_length = [](std::uint64_t length, std::size_t rest) {
    std::string file(8, '\0');
    std::memcpy(file.data(), &length, 8);
    return error_of(file + std::string(rest, ' '));
  };
  EXPECT_THAT(with_length(3, 2), HasSubstr("truncated: the header takes 3 bytes, the file has 2"));
  EXPECT_THAT(with_length(100'000'000, 10), HasSubstr("truncated"));
  EXPECT_THAT(with_length(100'000'001, 10), HasSubstr("over the limit of 100000000"));
  EXPECT_THAT(with_length(~std::uint64_t{0}, 10), HasSubstr("over the limit"));
  EXPECT_THAT(with_length(~std::uint64_t{0} - 7, 10), HasSubstr("over the limit")) << "8 + length wraps to zero";
  EXPECT_THAT(with_length(std::uint64_t{1} << 63, 10), HasSubstr("over the limit"));
}

TEST(Safetensors, TruncatedAnywhereIsRefused) {
  const std::string file = small_file();
  for (std::size_t n = 0; n < file.size(); ++n) EXPECT_FALSE(parse(file.substr(0, n)).ok()) << n << " of " << file.size();
  EXPECT_FALSE(parse(file + "x").ok());
}

// Thousands of damaged copies: either refused, or every promise of the header type holds (ranges inside the file, sizes consistent,
// coverage exact). Copies are exactly as long as their content, so that a sanitizer sees a read past the end.
TEST(Safetensors, RandomDamageNeverBreaksAPromise) {
  auto rng = seeded_rng();
  const std::string original = small_file();
  const std::string alphabet = "{}[]\",:0123456789-.eE tnfFU8BI\\\xff";
  std::size_t accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string file = original;
    const int edits = 1 + static_cast<int>(rng() % 3);
    for (int i = 0; i < edits; ++i) {
      const std::size_t at = rng() % file.size();
      switch (rng() % 6) {
        case 0: file[at] = static_cast<char>(rng()); break;
        case 1: file[at] = alphabet[rng() % alphabet.size()]; break;
        case 2: file[at] = static_cast<char>(file[at] ^ (1 << (rng() % 8))); break;
        case 3: file.erase(at, 1 + rng() % 4); break;
        case 4: file.insert(at, 1, alphabet[rng() % alphabet.size()]); break;
        case 5: file.resize(at + 1); break;
      }
      if (file.empty()) file = "x";
    }
    const std::vector<char> exact(file.begin(), file.end());
    auto header = parse_safetensors(std::as_bytes(std::span(exact)), "f");
    if (!header.ok()) {
      ASSERT_FALSE(header.error().message.empty());
      continue;
    }
    ++accepted;
    std::uint64_t covered = 0;
    for (const SafetensorsEntry& e : header->entries) {
      ASSERT_EQ(e.begin, covered);
      ASSERT_LE(header->data_offset + e.end, exact.size());
      std::uint64_t bytes = safetensors_dtype_bytes(e.dtype);
      for (const std::int64_t n : e.shape) bytes *= static_cast<std::uint64_t>(n);
      ASSERT_EQ(bytes, e.end - e.begin);
      covered = e.end;
    }
    ASSERT_EQ(header->data_offset + covered, exact.size());
  }
  EXPECT_GT(accepted, 100u) << "the damage must leave some files valid (edits of names and data), or this test proves little";
  EXPECT_LT(accepted, 15000u);
}

// Data bytes do not influence the header; header names may change, nothing else may.
TEST(Safetensors, DamageOfDataAloneLeavesTheHeaderIdentical) {
  auto rng = seeded_rng();
  const std::string original = small_file();
  auto expected = parse(original);
  ASSERT_TRUE(expected.ok());
  for (int round = 0; round < 500; ++round) {
    std::string file = original;
    file[expected->data_offset + rng() % (file.size() - expected->data_offset)] = static_cast<char>(rng());
    auto header = parse(file);
    ASSERT_TRUE(header.ok());
    for (std::size_t i = 0; i < header->entries.size(); ++i) {
      EXPECT_EQ(header->entries[i].name, expected->entries[i].name);
      EXPECT_EQ(header->entries[i].begin, expected->entries[i].begin);
    }
  }
}

}  // namespace
}  // namespace quire::model::test
