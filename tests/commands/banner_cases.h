// The command lines whose banners are golden; shared by the test and the tool that refreshes the golden files.
#pragma once
#include <string>
#include <vector>

#include "commands/banner.h"

namespace quire::commands::test {

struct BannerCase {
  std::string name;  // goldens/banner_NAME.txt
  std::string line;  // after `quire serve`
  BannerInputs::Server server = BannerInputs::Server::kListens;
};
[[nodiscard]] const std::vector<BannerCase>& banner_cases();

// On a machine and a processor that do not exist.
[[nodiscard]] std::string banner_of(const BannerCase& c);

}  // namespace quire::commands::test
