// refresh_explain FOLDER: writes explain's golden answers there. Look at the difference before committing it.
#include <cstdio>
#include <fstream>

#include "explain_cases.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: refresh_explain FOLDER\n", stderr);
    return 2;
  }
  for (const std::string_view device : quire::commands::test::kGoldenDevices) {
    std::ofstream file(std::string(argv[1]) + "/explain_" + std::string(device) + ".txt", std::ios::binary | std::ios::trunc);
    file << quire::commands::test::golden_text(device);
    file.close();
    if (!file) return 1;
  }
  return 0;
}
