// refresh_explain FOLDER: writes explain's golden answers and the golden banners there. Look at the difference before committing it.
#include <cstdio>
#include <fstream>

#include "banner_cases.h"
#include "explain_cases.h"

namespace {

bool write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return static_cast<bool>(file);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace quire::commands::test;
  if (argc != 2) {
    std::fputs("usage: refresh_explain FOLDER\n", stderr);
    return 2;
  }
  const std::string folder = argv[1];
  for (const std::string_view device : kGoldenDevices)
    if (!write(folder + "/explain_" + std::string(device) + ".txt", golden_text(device))) return 1;
  if (!write(folder + "/" + std::string(kScalesGolden), scales_golden_text())) return 1;
  for (const BannerCase& c : banner_cases())
    if (!write(folder + "/banner_" + c.name + ".txt", banner_of(c))) return 1;
  return 0;
}
