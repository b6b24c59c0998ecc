// A GGUF file cut at every length and damaged at random: never a crash, and what is accepted holds its promises.
#include <gtest/gtest.h>

#include <random>

#include "gguf/file.h"
#include "kit/gguf_writer.h"
#include "kit/seed.h"

namespace quire::gguf {
namespace {

using ::quire::test::GgufWriter;

std::string valid_file() {
  return GgufWriter().text("general.architecture", "llama").u32("llama.block_count", 2).texts("tokens", {"a", "bc"}).f32s("scores", {0.5f, 1.0f}).i32s("types", {1, 3})
      .tensor("w", {32, 2}, 3, std::string(40, 'q')).tensor("n", {8}, 0, std::string(32, 'f')).file();
}

// Every byte of the data section belongs to one tensor, or to padding shorter than the alignment.
void expect_promises(const File& file, std::size_t file_bytes) {
  std::uint64_t end = file.data_offset();
  for (const Tensor& tensor : file.tensors()) {
    const TypeFacts& facts = facts_of(tensor.type);
    std::int64_t elements = 1;
    for (const std::int64_t length : tensor.shape) elements *= length;
    EXPECT_EQ(static_cast<std::int64_t>(tensor.bytes.size()), elements / facts.block_elements * facts.block_bytes);
    end += (file.alignment() - end % file.alignment()) % file.alignment() + tensor.bytes.size();
  }
  EXPECT_LE(end, file_bytes);
  EXPECT_LT(file_bytes - end, file.alignment());
}

TEST(GgufDamage, EveryCutIsRefused) {
  const std::string whole = valid_file();
  ASSERT_TRUE(File::parse(std::as_bytes(std::span(whole)), "m.gguf").ok());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string cut = whole.substr(0, length);
    EXPECT_FALSE(File::parse(std::as_bytes(std::span(cut)), "m.gguf").ok()) << length;
  }
}

TEST(GgufDamage, RandomBytesEndInAnErrorOrAWholeFile) {
  auto rng = test::seeded_rng();
  const std::string whole = valid_file();
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = whole;
    for (std::uint64_t i = 0; i <= rng() % 3; ++i) damaged[rng() % damaged.size()] = static_cast<char>(rng() % 4 == 0 ? 0xff : rng());
    const auto file = File::parse(std::as_bytes(std::span(damaged)), "m.gguf");
    if (!file.ok()) continue;
    ++accepted;
    expect_promises(file.value(), damaged.size());
  }
  EXPECT_GT(accepted, 0);      // damage to names and data is no damage to the container
  EXPECT_LT(accepted, 20000);
}

}  // namespace
}  // namespace quire::gguf
