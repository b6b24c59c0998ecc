// quire_docs FOLDER: writes FLAGS.md, ENV.md, GGUF.md, GRAPH_MODES.md, LINEAR.md, QUANTIZATION.md, FAMILIES.md and CAPABILITIES.md there, from the tables. Built on demand; the same as
// `quire flags-doc`.
#include <cstdio>

#include "config/help.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: quire_docs FOLDER\n", stderr);
    return 2;
  }
  const quire::Status status = quire::config::write_docs(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}
