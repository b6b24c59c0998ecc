// Shared by the tests of src/text: where the models are, and short ways to load them.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <boost/json.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quire::text::test {

inline const std::string kGoldens = QUIRE_SOURCE_DIR "/tests/text/goldens";
inline const std::vector<std::string> kNames = {"gsm_tiny", "llama_like", "spm_like", "metaspace_like"};

inline std::string folder_of(const std::string& name) {
  return name == "gsm_tiny" ? std::string(QUIRE_SOURCE_DIR "/models/gsm-tiny") : kGoldens + "/" + name;
}

inline std::shared_ptr<const Tokenizer> load(const std::string& name) {
  auto tokenizer = Tokenizer::load(folder_of(name));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return tokenizer.value();
}

inline std::shared_ptr<const ChatTemplate> load_template(const std::string& name, const std::optional<std::string>& source = std::nullopt) {
  auto chat_template = ChatTemplate::load(folder_of(name), load(name), source);
  EXPECT_TRUE(chat_template.ok()) << chat_template.error().message;
  return chat_template.value();
}

inline boost::json::value golden(const std::string& name) {
  auto value = parse_json_file(kGoldens + "/" + name + ".json");
  EXPECT_TRUE(value.ok()) << value.error().message;
  return value.value();
}

// FNV-1a of 64 bits over `values`, in hexadecimal: how goldens hold what is long.
template <class Values>
std::string fnv_of(const Values& values) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const auto value : values) hash = (hash ^ static_cast<std::uint64_t>(static_cast<std::make_unsigned_t<decltype(value)>>(value))) * 0x100000001B3u;
  std::array<char, 17> hex{};
  std::snprintf(hex.data(), hex.size(), "%016llx", static_cast<unsigned long long>(hash));
  return hex.data();
}

inline std::vector<TokenId> ids_of(const boost::json::value& value) { return boost::json::value_to<std::vector<TokenId>>(value); }
inline std::string string_of(const boost::json::value& value) { return boost::json::value_to<std::string>(value); }

}  // namespace quire::text::test
