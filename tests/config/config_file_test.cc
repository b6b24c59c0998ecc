// --config files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "kit.h"
#include "kit/temp_dir.h"

namespace quire::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Options read(const std::string& text, const std::string& line = "") {
  ::quire::test::TempDir dir;
  return test::options_of(line + " --config " + dir.write("c.yaml", text));
}

std::string error(const std::string& text, const std::string& line = "M") {
  ::quire::test::TempDir dir;
  return test::error_of("serve " + line + " --config " + dir.write("c.yaml", text));
}

TEST(ConfigFile, ValuesOfEveryKind) {
  const Options options = read(
      "# comment\n"
      "model: org/name\n"
      "port: 9000\n"
      "max_model_len: 25.6k\n"
      "enable-prefix-caching: false\n"
      "no-enable-chunked-prefill: true\n"
      "enforce-eager: true\n"
      "served-model-name: [a, 'b c']\n"
      "api-key:\n  - x\n  - y\n"
      "dtype: \"bfloat16\"\n"
      "compilation-config:\n  level: 0\n  cudagraph_capture_sizes: [1, 2]\n  backend: 'eager'\n"
      "override-generation-config: '{\"temperature\": 0.5}'\n");
  EXPECT_EQ(options.model(), "org/name");
  EXPECT_EQ(options.integer("port"), 9000);
  EXPECT_EQ(options.integer("max-model-len"), 25600);
  EXPECT_FALSE(options.boolean("enable-prefix-caching"));
  EXPECT_FALSE(options.boolean("enable-chunked-prefill"));
  EXPECT_TRUE(options.boolean("enforce-eager"));
  EXPECT_THAT(options.list("served-model-name"), ElementsAre("a", "b c"));
  EXPECT_THAT(options.list("api-key"), ElementsAre("x", "y"));
  EXPECT_EQ(options.text("dtype"), "bfloat16");
  EXPECT_EQ(boost::json::serialize(options.json("compilation-config")), "{\"level\":0,\"cudagraph_capture_sizes\":[1,2],\"backend\":\"eager\"}");
  EXPECT_EQ(options.json("override-generation-config").at("temperature").as_double(), 0.5);
}

TEST(ConfigFile, TheCommandLineWins) {
  const Options options =
      read("port: 1\nmodel: file\nhost: h\nserved-model-name: [a]\nenforce-eager: true\n", "M --port 2 --served-model-name b --no-enforce-eager");
  EXPECT_EQ(options.model(), "M");
  EXPECT_EQ(options.integer("port"), 2);
  EXPECT_EQ(options.text("host"), "h");
  EXPECT_THAT(options.list("served-model-name"), ElementsAre("b"));
  EXPECT_FALSE(options.boolean("enforce-eager"));
  EXPECT_THAT(options.notes(), IsEmpty());
}

TEST(ConfigFile, EmptyOnesSetNothing) {
  for (const char* text : {"", "\n", "# only a comment\n", "---\n"}) EXPECT_EQ(read(text, "M").integer("port"), 8000) << text;
}

struct BadFile {
  const char* text;
  const char* message;
};
class BadFiles : public ::testing::TestWithParam<BadFile> {};
TEST_P(BadFiles, SayWhere) { EXPECT_THAT(error(GetParam().text), HasSubstr(GetParam().message)) << GetParam().text; }
INSTANTIATE_TEST_SUITE_P(
    Table, BadFiles,
    ::testing::Values(BadFile{"host: h\nprot: 1\n", "line 2: unknown key 'prot' (did you mean 'port'?)"},
                      BadFile{"port: 70000\n", "line 1: port '70000': must be an integer from 0 to 65535"},
                      BadFile{"port: [1, 2]\n", "port: must be an integer from 0 to 65535, not a list"}, BadFile{"port: {a: 1}\n", "not a map"},
                      BadFile{"port:\n", "port: has no value"}, BadFile{"port: 1\nport: 2\n", "key 'port' is given twice"},
                      BadFile{"max-num-seqs: 1\nmax_num_seqs: 2\n", "given twice (as --max-num-seqs)"},
                      BadFile{"- port\n", "must be `key: value` lines"}, BadFile{"just words\n", "must be `key: value` lines"},
                      BadFile{"port: 1\n---\nport: 2\n", "only one document"}, BadFile{"port: &a 1\nhost: *a\n", "anchors and tags are not allowed"},
                      BadFile{"port: !!int 1\n", "anchors and tags are not allowed"}, BadFile{"host: *x\n", "aliases are not allowed"},
                      BadFile{"port: 'unterminated\n", "line"}, BadFile{"config: other.yaml\n", "not allowed in a configuration file"},
                      BadFile{"prompt: x\n", "not a flag of this command"}, BadFile{"? [a]\n: b\n", "keys must be plain words"},
                      BadFile{"enforce-eager: maybe\n", "enforce-eager 'maybe': must be true or false"},
                      BadFile{"served-model-name: [[a]]\n", "list items must be single values"},
                      BadFile{"served-model-name: []\n", "the list is empty"},
                      BadFile{"tensor-parallel-size: 2\n", "more than one rank: not built yet"},
                      BadFile{"compilation-config: [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]\n", "nested deeper than 16 levels"},
                      BadFile{"host: \"\\xff\xff\"\n", "line"}));

TEST(ConfigFile, MissingAndHuge) {
  EXPECT_THAT(test::error_of("serve M --config nowhere.yaml"), HasSubstr("--config: nowhere.yaml"));
  EXPECT_THAT(error(std::string((1u << 20) + 1, '#')), HasSubstr("--config"));
  EXPECT_THAT(error(std::string(100000, '[')), HasSubstr("--config"));
}

}  // namespace
}  // namespace quire::config
