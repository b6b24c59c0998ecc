// What `quire chat` remembers, and its commands.
#include "commands/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "config/command_line.h"

namespace quire::commands {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using What = ChatOrder::What;

ChatOrder order(const std::string& typed) { return read_order(typed).value(); }
std::string error_of(const std::string& typed) {
  const auto read = read_order(typed);
  return read.ok() ? "no error" : read.error().message;
}

TEST(ChatOrders, AreReadFromTheFirstWord) {
  EXPECT_EQ(order("hello /help").what, What::kSay);
  EXPECT_EQ(order("hello /help").argument, "hello /help");
  EXPECT_EQ(order("//etc").argument, "/etc");
  EXPECT_EQ(order("/help").what, What::kHelp);
  EXPECT_EQ(order("/quit  ").what, What::kQuit);
  EXPECT_EQ(order("/system  be brief \n and kind ").argument, "be brief \n and kind");
  EXPECT_EQ(order("/system").argument, "");
  EXPECT_EQ(order("/save a b.json").argument, "a b.json");
}

TEST(ChatOrders, MistakesNameTheNearest) {
  EXPECT_THAT(error_of("/sytem x"), AllOf(HasSubstr("'/sytem'"), HasSubstr("did you mean '/system'"), HasSubstr("/help")));
  EXPECT_THAT(error_of("/save"), HasSubstr("/save FILE"));
  EXPECT_THAT(error_of("/clear all"), HasSubstr("/clear 'all': takes nothing"));
}

TEST(ChatOrders, HelpListsEveryOne) {
  for (const char* name : {"/help", "/clear", "/system", "/set", "/undo", "/retry", "/save", "/quit"}) {
    EXPECT_THAT(std::string(chat_order_help()), HasSubstr(std::string(name)));
    EXPECT_THAT(error_of(name), ::testing::Not(HasSubstr("no such command")));
  }
}

TEST(ChatSampling, TakesWhatTheFlagsTake) {
  ChatSampling sampling;
  EXPECT_EQ(sampling.text(), "the model's own");
  EXPECT_TRUE(sampling.set("temperature", "0.5").ok());
  EXPECT_TRUE(sampling.set("top-k", "10").ok());
  EXPECT_EQ(boost::json::serialize(sampling.fields()), R"({"temperature":5E-1,"top_k":10})");
  EXPECT_TRUE(sampling.set("temperature", "default").ok());
  EXPECT_EQ(sampling.text(), "top_k 10");
  EXPECT_THAT(sampling.set("top_p", "1.5").error().message, HasSubstr("/set top_p '1.5': must be a number above 0 and at most 1"));
  EXPECT_THAT(sampling.set("temprature", "1").error().message, HasSubstr("did you mean 'temperature'"));
  EXPECT_EQ(sampling.text(), "top_k 10") << "a refused value changes nothing";
}

TEST(ChatSampling, BeginsWithTheCommandLine) {
  const std::vector<std::string> line{"chat", "M", "--temperature", "0", "--seed", "7", "--max-tokens", "9"};
  const auto command = config::parse_command_line(line);
  ASSERT_TRUE(command.ok()) << command.error().message;
  const ChatSampling sampling(std::get<config::ChatCommand>(command.value()).options);
  EXPECT_EQ(sampling.fields().size(), 3u);
  EXPECT_EQ(sampling.fields().at("max_tokens").as_int64(), 9);
  EXPECT_EQ(sampling.fields().at("seed").as_int64(), 7);
}

TEST(Conversation, KeepsQuestionsAndAnswersInOrder) {
  Conversation c;
  c.set_system("be brief");
  c.ask("one");
  c.answer({.text = "1", .finish_reason = "stop", .usage = {3, 1}});
  c.ask("two");
  EXPECT_EQ(boost::json::serialize(c.messages()),
            R"([{"role":"system","content":"be brief"},{"role":"user","content":"one"},{"role":"assistant","content":"1"},{"role":"user","content":"two"}])");
  EXPECT_EQ(c.take_back(), "two") << "without its answer too";
  EXPECT_EQ(c.take_back(), "one");
  EXPECT_EQ(c.take_back(), std::nullopt);
  EXPECT_EQ(c.messages().size(), 1u) << "the system message stays";
}

TEST(Conversation, IsOneDocument) {
  Conversation c;
  c.ask("one");
  c.answer({.text = "1", .finish_reason = "stopped", .usage = {3, std::nullopt}});
  EXPECT_EQ(boost::json::serialize(c.document("m", {"it failed"})),
            R"({"model":"m","messages":[{"role":"user","content":"one"},{"role":"assistant","content":"1"}],"turns":[{"finish_reason":"stopped","usage":{"prompt_tokens":3,"completion_tokens":null}}],"errors":["it failed"]})");
  c.clear();
  EXPECT_EQ(c.exchanges().size(), 0u);
}

}  // namespace
}  // namespace quire::commands
