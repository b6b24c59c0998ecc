// The start-up banner against its golden files, and what it must never leave out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attention/device_family.h"
#include "banner_cases.h"
#include "base/files.h"
#include "config/kit.h"

namespace quire::commands {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Banner, Golden) {
  for (const test::BannerCase& c : test::banner_cases()) {
    const auto golden = read_file(QUIRE_SOURCE_DIR "/tests/commands/goldens/banner_" + c.name + ".txt", 1u << 20);
    ASSERT_TRUE(golden.ok()) << golden.error().message;
    EXPECT_EQ(test::banner_of(c), golden.value()) << c.name << "; refresh with: ninja refresh_explain && bin/refresh_explain tests/commands/goldens";
  }
}

TEST(Banner, NamesEveryRowOfTheTable) {
  for (const test::BannerCase& c : test::banner_cases()) {
    const std::string text = test::banner_of(c);
    for (const attention::BackendCaps& row : attention::backend_table()) {
      const std::string name(row.name);
      EXPECT_THAT(text, ::testing::AnyOf(HasSubstr("decode " + name + ","), HasSubstr("not " + name + ": "))) << c.name;
    }
  }
}

TEST(Banner, SecretsAreNotInIt) {
  for (const test::BannerCase& c : test::banner_cases()) EXPECT_THAT(test::banner_of(c), Not(HasSubstr("s3cret")));
}

TEST(Banner, RunSpeaksOfNoServer) { EXPECT_THAT(test::banner_of({.name = "run", .line = "gsm-tiny", .server = BannerInputs::Server::kNone}), Not(HasSubstr("server"))); }

TEST(Banner, FallbacksAndChangedGraphModesAreWarnings) {
  const config::ResolvedConfig config = config::test::resolved("M --attention-backend CPU_SPLIT -cc.cudagraph_mode FULL");
  RunSetup setup = set_up_run(config, std::string(attention::kServedFamily)).value();
  setup.selection.fallbacks.push_back({"FAST", "PLAIN", "no reason at all"});
  const device::DeviceProfile device{.family = "cpu", .name = "x"};
  const std::string text = banner({.config = config, .setup = setup, .device = device, .version = "1", .instruction_set = "y"});
  EXPECT_THAT(text, HasSubstr("\nwarning    attention PLAIN instead of FAST: no reason at all\n"));
  EXPECT_THAT(text, HasSubstr("\nwarning    --compilation-config cudagraph_mode FULL runs as FULL_AND_PIECEWISE: attention backend CPU_SPLIT has graph support"));
  EXPECT_THAT(text, HasSubstr("\ngraphs     FULL_AND_PIECEWISE, sizes 1, 2, 4, 8, 16, ... "));
}

}  // namespace
}  // namespace quire::commands
