// Conversions, suggestions, JSON limits and files: the small things everything else trusts.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/result.h"
#include "base/suggest.h"
#include "base/text.h"
#include "kit/temp_dir.h"

namespace quire {
namespace {

TEST(DTypeNames, RoundTrip) {
  for (const DType t : kDTypes) EXPECT_EQ(parse_dtype(dtype_name(t)), t);
  EXPECT_EQ(parse_dtype("half"), DType::kF16);
  EXPECT_EQ(parse_dtype("float"), DType::kF32);
  EXPECT_FALSE(parse_dtype("fp16").has_value());
}

// Every 16-bit value survives the way to float and back; NaN stays NaN.
TEST(HalfTypes, AllValuesRoundTrip) {
  for (std::uint32_t u = 0; u < 65536; ++u) {
    const Float16 h{static_cast<std::uint16_t>(u)};
    const BFloat16 b{static_cast<std::uint16_t>(u)};
    if (std::isnan(to_float(h))) { EXPECT_TRUE(std::isnan(to_float(to_float16(to_float(h))))); } else { ASSERT_EQ(to_float16(to_float(h)).bits, u); }
    if (std::isnan(to_float(b))) { EXPECT_TRUE(std::isnan(to_float(to_bfloat16(to_float(b))))); } else { ASSERT_EQ(to_bfloat16(to_float(b)).bits, u); }
  }
}

// Midpoints between neighbours go to the even neighbour, and anything off the midpoint to the nearer one.
TEST(HalfTypes, RoundsToNearestEven) {
  for (std::uint32_t u = 0; u < 0x7bff; ++u) {
    const double low = to_float(Float16{static_cast<std::uint16_t>(u)}), high = to_float(Float16{static_cast<std::uint16_t>(u + 1)});
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(to_float16(middle).bits, u + (u & 1u)) << u;
    ASSERT_EQ(to_float16(std::nextafterf(middle, 1e9f)).bits, u + 1) << u;
    ASSERT_EQ(to_float16(std::nextafterf(middle, -1e9f)).bits, u) << u;
  }
  EXPECT_EQ(to_float16(65519.0f).bits, 0x7bff);
  EXPECT_EQ(to_float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(to_bfloat16(1.00390625f).bits, 0x3f80);  // 1 + 2^-8 is a midpoint; 1.0 is even
  EXPECT_EQ(to_bfloat16(1.01171875f).bits, 0x3f82);
}

TEST(Suggest, NamesTheNearestOrNothing) {
  constexpr std::array<std::string_view, 3> names = {"cudagraph_mode", "max-model-len", "port"};
  EXPECT_EQ(nearest_name("cudagraf_mode", names), "cudagraph_mode");
  EXPECT_EQ(nearest_name("completely-different", names), "");
  EXPECT_EQ(nearest_name(std::string(100000, 'a'), names), "");
}

TEST(Json, LimitsAndErrors) {
  EXPECT_TRUE(parse_json(R"({"a": [1, 2, {"b": null}]})").ok());
  EXPECT_FALSE(parse_json("{\"a\": NaN}").ok());
  EXPECT_FALSE(parse_json("{} x").ok());
  EXPECT_FALSE(parse_json("{\"a\":").ok());
  EXPECT_FALSE(parse_json("\"\xff\"").ok());
  const std::string deep = std::string(10000, '[') + std::string(10000, ']');
  const auto too_deep = parse_json(deep);
  ASSERT_FALSE(too_deep.ok());
  EXPECT_NE(too_deep.error().message.find("deeper"), std::string::npos);
  EXPECT_EQ(parse_json("[1,2,3]", JsonLimits{.max_bytes = 3}).error().code, ErrorCode::kTooLarge);
  // Values are counted before they take memory; commas and brackets inside of strings are none.
  EXPECT_EQ(parse_json("[0,0,0,0]", JsonLimits{.max_values = 4}).error().code, ErrorCode::kTooLarge);
  EXPECT_TRUE(parse_json(R"(["a,[{\",[[,,,,,"])", JsonLimits{.max_values = 4}).ok());
  EXPECT_EQ(parse_json("[[[[[]]]]]", JsonLimits{.max_values = 4}).error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(shown_text("a\n\"\x7f"), R"("a\x0a\x22\x7f")");
  EXPECT_EQ(shown_text(std::string(500, 'x')), "\"" + std::string(120, 'x') + "...\"");
}

TEST(Json, DuplicateKeysAreRefusedAtEveryDepthUnlessTheCallerKeepsTheLast) {
  const JsonLimits lenient{.duplicate_keys = JsonLimits::DuplicateKeys::kKeepLast};
  for (const char* text : {R"({"a":1,"a":2})", R"({"b":{"c":[{"a":1,"x":0,"a":2}]}})", R"([{"a":1,"\u0061":2}])", R"({"a":{"a":1},"b":2,"a":2})"}) {
    const auto strict = parse_json(text);
    ASSERT_FALSE(strict.ok()) << text;
    EXPECT_EQ(strict.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(strict.error().message.find("\"a\" stands twice"), std::string::npos) << strict.error().message;
    EXPECT_TRUE(parse_json(text, lenient).ok()) << text;
  }
  EXPECT_EQ(parse_json(R"({"a":1,"b":3,"a":2})", lenient).value().at("a").as_int64(), 2);
  // The same key in different objects, as key and as value, and keys that only begin alike.
  EXPECT_TRUE(parse_json(R"({"a":{"a":"a"},"b":[{"a":1},{"a":2}],"ab":1,"":0})").ok());
  const auto hostile = parse_json("{\"\\u001b[31m\":1,\"\\u001b[31m\":2}");
  ASSERT_FALSE(hostile.ok());
  EXPECT_EQ(hostile.error().message.find('\x1b'), std::string::npos) << "a key from outside must be printable in an error";
}

TEST(Json, FilesNameThemselvesInTheErrorForADuplicateKey) {
  const test::TempDir dir;
  const std::string path = dir.write("twice.json", R"({"a":1,"a":2})");
  const auto parsed = parse_json_file(path);
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(parsed.error().message.starts_with(path)) << parsed.error().message;
}

TEST(Errors, NameTheirFlagOnce) {
  const auto said = [](const char* param, const char* message) { return Error{ErrorCode::kInvalidArgument, message, param}.to_string(); };
  EXPECT_EQ(said("--port", "70000 is too large"), "--port: 70000 is too large");
  EXPECT_EQ(said("--port", "--port 70000 is too large"), "--port 70000 is too large");
  EXPECT_EQ(said("--port", "--port: 70000 is too large"), "--port: 70000 is too large");
  EXPECT_EQ(said("--port", "--port"), "--port");
  EXPECT_EQ(said("--port", "--port-range is another flag"), "--port: --port-range is another flag");
  EXPECT_EQ(said("stop", "stop[1]: empty"), "stop[1]: empty");
  EXPECT_EQ(said("n", "no room"), "n: no room");
  EXPECT_EQ(said("", "plain"), "plain");
}

TEST(Log, StrangeTextStaysOneShortLine) {
  EXPECT_EQ(loggable("/v1/models"), "/v1/models");
  EXPECT_EQ(loggable("a\nb\x1b[31m\x7f\xc3\xa4"), "a\\x0ab\\x1b[31m\\x7f\\xc3\\xa4");
  EXPECT_EQ(loggable(std::string(200, 'x')), std::string(200, 'x'));
  EXPECT_EQ(loggable(std::string(9000, 'x')), std::string(200, 'x') + "... (9000 bytes)");
  EXPECT_EQ(loggable("abcdef", 3), "abc... (6 bytes)");
}

TEST(Checked, SeesOverflow) {
  EXPECT_EQ(checked_mul<std::int64_t>(3, 4), 12);
  EXPECT_FALSE(checked_mul<std::int64_t>(INT64_MAX, 2).has_value());
  EXPECT_FALSE(checked_add<std::uint64_t>(UINT64_MAX, 1).has_value());
}

TEST(Files, ReadMapAndRefuse) {
  const test::TempDir dir;
  const std::string path = dir.write("a.txt", "hello");
  EXPECT_EQ(read_file(path, 100).value(), "hello");
  EXPECT_EQ(read_file(path, 4).error().code, ErrorCode::kTooLarge);
  EXPECT_FALSE(read_file(dir.path(), 100).ok());
  EXPECT_FALSE(MappedFile::open(dir.path() + "/none").ok());
  EXPECT_EQ(MappedFile::open(path).value().bytes().size(), 5u);
}

// Nobody has the other end open: an open that waits for one never comes back.
TEST(Files, AFifoIsRefusedAtOnce) {
  test::TempDir dir;
  const std::string fifo = dir.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(read_file(fifo, 100).error().message, fifo + ": not a regular file");
  EXPECT_EQ(MappedFile::open(fifo).error().message, fifo + ": not a regular file");
}

TEST(Text, LettersAreAscii) {
  EXPECT_EQ(upper("az-AZ 9\xc3\xa9"), "AZ-AZ 9\xc3\xa9");
  EXPECT_EQ(lower("az-AZ 9\xc3\x89[@`{"), "az-az 9\xc3\x89[@`{");
  EXPECT_EQ(upper(""), "");
}

TEST(Text, ColumnsKeepWhatIsLonger) {
  EXPECT_EQ(left_aligned("ab", 4), "ab  ");
  EXPECT_EQ(right_aligned("ab", 4), "  ab");
  EXPECT_EQ(left_aligned("abcde", 4), "abcde");
  EXPECT_EQ(right_aligned("abcde", 4), "abcde");
}

TEST(Text, NumbersAndLists) {
  EXPECT_EQ(formatted("%.2e", 0.00125), "1.25e-03");
  EXPECT_EQ(formatted("%.2e", HUGE_VAL), "inf");
  EXPECT_EQ(formatted("%.1f %%", 12.34), "12.3 %");
  EXPECT_LE(formatted("%.1f", 1e300).size(), 63u) << "cut, not overrun";
  EXPECT_EQ(joined({"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(joined({"a"}, ", "), "a");
  EXPECT_EQ(joined({"", "a"}, ", "), ", a");
  EXPECT_EQ(joined({}, ", "), "");
}

TEST(Error, NamesItsFlagOnce) {
  EXPECT_EQ((Error{ErrorCode::kIo, "no such file", "--config"}).to_string(), "--config: no such file");
  EXPECT_EQ((Error{ErrorCode::kIo, "--config x: no such file", "--config"}).to_string(), "--config x: no such file");
  EXPECT_EQ((Error{ErrorCode::kIo, "'--prot': unknown flag", "--prot"}).to_string(), "'--prot': unknown flag");
  EXPECT_EQ((Error{ErrorCode::kIo, "2 problems:\n  - --port 9: no", "--port"}).to_string(), "2 problems:\n  - --port 9: no");
  EXPECT_EQ((Error{ErrorCode::kIo, "--max-num-seqs is less", "--max-n"}).to_string(), "--max-n: --max-num-seqs is less");
  EXPECT_EQ((Error{ErrorCode::kIo, "plain", ""}).to_string(), "plain");
}

}  // namespace
}  // namespace quire
