// llama.cpp's token ids of texts, with the vocabulary of a GGUF file. Links only what reads vocabularies; no part of Quire's build
// (build.sh beside this file compiles it).
//
// tokenise FILE.gguf < TEXTS > IDS: each text is a 32-bit length and its bytes, each answer a line of ids. No first and last tokens are
// added, and the text of special tokens is ordinary text (parse_special off).
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "llama-arch.h"
#include "llama-model-loader.h"
#include "llama-vocab.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::vector<std::string> splits;
  llama_model_loader loader(nullptr, nullptr, nullptr, argv[1], splits, nullptr, LLAMA_LOAD_MODE_NONE, false, true, false, nullptr, nullptr);
  llama_vocab vocab;
  vocab.load(loader, LLM_KV(loader.get_arch()));
  std::uint32_t length = 0;
  while (std::fread(&length, sizeof length, 1, stdin) == 1) {
    std::string text(length, '\0');
    if (length != 0 && std::fread(text.data(), 1, length, stdin) != length) return 1;
    for (const llama_token id : vocab.tokenize(text, false, false)) std::printf("%d ", id);
    std::printf("\n");
  }
  return 0;
}
