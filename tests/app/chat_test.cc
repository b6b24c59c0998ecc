// quire chat as a user has it: through a pipe, at a terminal, with a model of its own and with a server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <thread>

#include "base/files.h"
#include "base/json.h"
#include "http/fake_server.h"
#include "kit/slowdown.h"
#include "program.h"

namespace quire::app_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kQuestion = "Ben has 12 coins. Ben loses 5 coins. How many coins does Ben have now?";

std::vector<std::string> chat_line(const std::vector<std::string>& more = {}) {
  std::vector<std::string> flags{"--temperature", "0", "--max-tokens", "64", "--served-model-name", "gsm-tiny"};
  flags.insert(flags.end(), more.begin(), more.end());
  return with_tiny_model("chat", flags);
}

boost::json::object document_of(const Ended& ended) {
  const auto parsed = parse_json(ended.out);
  EXPECT_TRUE(parsed.ok()) << ended.out << ended.err;
  return parsed.ok() ? parsed.value().as_object() : boost::json::object();
}

TEST(Chat, APipeGivesATurnALineAndAnswersAlone) {
  const Ended ended = run_quire_with_input(chat_line(), kQuestion + "\n");
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("7"), ::testing::EndsWith("\n"), Not(HasSubstr("> "))));
  EXPECT_EQ(ended.err, "") << "no banner, no prompt";
}

TEST(Chat, JsonIsTheConversation) {
  const ::quire::test::TempDir dir;
  const std::string saved = dir.path() + "/saved.json";
  const Ended ended = run_quire_with_input(chat_line({"--json"}), "/set max_tokens 4\n" + kQuestion + "\n/retry\nsecond\\\nline\n/undo\n/save " + saved + "\n/save " + saved + "\n/nonsense\n");
  EXPECT_EQ(ended.status, 1) << "two commands failed, and nobody sits at a terminal to see it";
  EXPECT_THAT(ended.err, AllOf(HasSubstr("the file exists; choose another name"), HasSubstr("'/nonsense': no such command")));
  const auto document = document_of(ended);
  EXPECT_EQ(document.at("model").as_string(), "gsm-tiny");
  ASSERT_EQ(document.at("messages").as_array().size(), 2u) << "retried, and the second question taken back";
  EXPECT_EQ(document.at("messages").at(0).at("content").as_string(), kQuestion);
  EXPECT_EQ(document.at("turns").at(0).at("finish_reason").as_string(), "length");
  EXPECT_EQ(document.at("turns").at(0).at("usage").at("completion_tokens").to_number<int>(), 4);
  EXPECT_EQ(document.at("errors").as_array().size(), 2u);
  const auto file = parse_json(read_file(saved, 1u << 20).value());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file.value().at("messages"), document.at("messages"));
}

TEST(Chat, HistoryIsSentAgain) {
  const auto document = document_of(run_quire_with_input(chat_line({"--json"}), "/system be brief\n" + kQuestion + "\nsecond\\\nline\n"));
  const auto& messages = document.at("messages").as_array();
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[0].at("role").as_string(), "system");
  EXPECT_EQ(messages[3].at("content").as_string(), "second\nline");
  const auto& turns = document.at("turns").as_array();
  EXPECT_GT(turns.at(1).at("usage").at("prompt_tokens").to_number<int>(), turns.at(0).at("usage").at("prompt_tokens").to_number<int>() + turns.at(0).at("usage").at("completion_tokens").to_number<int>())
      << "the second prompt holds the first one and its answer";
}

TEST(Chat, AFailedTurnIsForgottenAndTheNextOneAnswered) {
  const std::string question(3000, 'x');
  const Ended ended = run_quire_with_input(chat_line({"--json", "--max-model-len", "256"}), question + "\n" + kQuestion + "\n");
  EXPECT_EQ(ended.status, 1);
  const auto document = document_of(ended);
  EXPECT_EQ(document.at("messages").as_array().size(), 2u);
  EXPECT_EQ(document.at("errors").as_array().size(), 1u);
}

// A server that begins an answer and never ends it: only Ctrl-C does.
TEST(Chat, CtrlCStopsTheAnswerAndTwiceLeaves) {
  using namespace http::test;
  FakeServer server([](const std::string&) {
    return ServerAnswer{{{stream_head() + chunk(event(R"({"choices":[{"delta":{"content":"for \u001b[31mever \u009b31m"}}]})"))}}, AtEnd::kStayOpen};
  });
  Terminal terminal({"chat", "--base-url", server.url(), "--model", "m"});
  ASSERT_TRUE(terminal.shows("/help lists the commands")) << terminal.shown();
  ASSERT_TRUE(terminal.shows("> "));
  terminal.type("hello\n");
  ASSERT_TRUE(terminal.shows("for ?[31mever ?31m")) << "no orders to the terminal: " << terminal.shown();
  terminal.type("\x03");
  ASSERT_TRUE(terminal.shows("(stopped)")) << terminal.shown();
  ASSERT_TRUE(terminal.shows("> ")) << "the program is still there";
  terminal.type("again\n");
  ASSERT_TRUE(terminal.shows("for ?[31mever"));
  terminal.type("\x03");
  ASSERT_TRUE(terminal.shows("(stopped)"));
  ASSERT_TRUE(terminal.shows("> "));
  EXPECT_THAT(server.requests().at(1), HasSubstr("for \\u001b[31mever")) << "what there was of the first answer is history";
  for (int i = 0; i < 500 * quire::test::kSlowdown && server.clients_gone() < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(server.clients_gone(), 2) << "the server is told to stop making it";
  terminal.type("\x03");
  ASSERT_TRUE(terminal.shows("(Ctrl-C again, or Ctrl-D, leaves)")) << terminal.shown();
  ASSERT_TRUE(terminal.shows("> "));
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait(), 0) << terminal.shown();
}

// Everything that a server says is on the screen sooner or later: its model's name, answers, finish reasons, errors.
TEST(Chat, AServerGivesNoOrdersToTheTerminal) {
  using namespace http::test;
  FakeServer server([](const std::string& request) {
    if (request.starts_with("GET")) return ServerAnswer{{{json_answer(R"({"data":[{"id":"m\u001b]0;x\u0007\u009b2J"}]})")}}};
    if (request.find("second") != std::string::npos) return ServerAnswer{{{json_answer(R"({"error":{"message":"no \u009b2J"}})", "400 Bad Request")}}};
    return ServerAnswer{{{stream_head() + chunk(event(R"({"choices":[{"delta":{"content":"first"},"finish_reason":"\u001bc\u009b2J"}]})")) + stream_end()}}};
  });
  Terminal terminal({"chat", "--base-url", server.url(), "--json"});
  ASSERT_TRUE(terminal.shows(R"(m\x1b]0;x\x07\xc2\x9b2J: /help lists the commands)")) << terminal.shown();
  ASSERT_TRUE(terminal.shows("> "));
  terminal.type("hello\n");
  ASSERT_TRUE(terminal.shows(R"((\x1bc\xc2\x9b2J))")) << terminal.shown();
  ASSERT_TRUE(terminal.shows("> "));
  terminal.type("second\n");
  ASSERT_TRUE(terminal.shows(R"(no \xc2\x9b2J)")) << terminal.shown();
  ASSERT_TRUE(terminal.shows("> "));
  terminal.type("\x04");
  EXPECT_EQ(terminal.wait(), 0) << terminal.shown();
  EXPECT_THAT(terminal.shown(), AllOf(HasSubstr("\"finish_reason\""), Not(HasSubstr("\x1b")), Not(HasSubstr("\x07")), Not(HasSubstr("\xc2\x9b")))) << "the document is shown there too";
}

TEST(Chat, ALineThatIsTooLongEndsTheConversationAndNotItsDocument) {
  const Ended ended = run_quire_with_input(chat_line({"--json"}), kQuestion + "\n" + std::string((1u << 20) + 100000, 'x') + "\n" + kQuestion + "\n");
  EXPECT_EQ(ended.status, 1) << "the command line is right";
  EXPECT_THAT(ended.err, HasSubstr("a line of standard input has more than 1048576 bytes"));
  const auto document = document_of(ended);
  EXPECT_EQ(document.at("messages").as_array().size(), 2u) << "what was answered before";
  ASSERT_EQ(document.at("errors").as_array().size(), 1u);
}

TEST(Chat, SavingNeedsANewFileAndAPlace) {
  const ::quire::test::TempDir dir;
  const Ended ended = run_quire_with_input(chat_line(), "/save " + dir.path() + "/no/folder.json\n/save /dev/full\n");
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("/save: " + dir.path() + "/no/folder.json: cannot create: No such file or directory"), HasSubstr("/save: /dev/full: the file exists; choose another name")));
}

TEST(Chat, ASilentServerIsGivenUpWhenTheUserSays) {
  using namespace http::test;
  FakeServer server([](const std::string&) { return ServerAnswer{{}, AtEnd::kStayOpen}; });
  const Ended answer = run_quire_with_input({"chat", "--base-url", server.url(), "--model", "m", "--read-timeout", "0.2"}, "hello\n");
  EXPECT_EQ(answer.status, 1);
  EXPECT_THAT(answer.err, HasSubstr("the server sent nothing for 200 ms"));
  const Ended models = run_quire_with_input({"chat", "--base-url", server.url(), "--read-timeout", "0.2"}, "");
  EXPECT_EQ(models.status, 1);
  EXPECT_THAT(models.err, HasSubstr("GET /v1/models: "));
}

// However far the answer is when the key comes, the program stays and the next commands work.
TEST(Chat, CtrlCLeavesAModelThatGoesOn) {
  Terminal terminal(with_tiny_model("chat", {"--temperature", "1.5", "--seed", "1"}));
  ASSERT_TRUE(terminal.shows("/help lists the commands")) << terminal.shown();
  ASSERT_TRUE(terminal.shows("> "));
  terminal.type(kQuestion + "\n");
  ASSERT_TRUE(terminal.shows("How many coins does Ben have now?"));
  terminal.type("\x03");
  ASSERT_TRUE(terminal.shows("> ")) << terminal.shown();
  terminal.type("/set\n");
  ASSERT_TRUE(terminal.shows("sampling: temperature 1.5E0, seed 1")) << terminal.shown();
  terminal.type("/set temperature 0\n" + kQuestion + "\n");
  ASSERT_TRUE(terminal.shows("How many coins does Ben have now?"));
  ASSERT_TRUE(terminal.shows("7")) << terminal.shown();
  ASSERT_TRUE(terminal.shows("> "));
  terminal.type("/quit\n");
  EXPECT_EQ(terminal.wait(), 0) << terminal.shown();
}

TEST(Chat, CtrlDLeaves) {
  Terminal terminal(chat_line());
  ASSERT_TRUE(terminal.shows("> ")) << terminal.shown();
  terminal.type("\x04");
  EXPECT_EQ(terminal.wait(), 0) << terminal.shown();
}

TEST(Chat, AServerAnswersToo) {
  const RunningServer server;
  ASSERT_TRUE(server.ready()) << server.log();
  const Ended ended = run_quire_with_input({"chat", "--base-url", server.url(), "--temperature", "0", "--max-tokens", "64", "--json"}, kQuestion + "\n");
  ASSERT_EQ(ended.status, 0) << ended.err;
  const auto document = document_of(ended);
  EXPECT_EQ(document.at("model").as_string(), "gsm-tiny") << "the server's only one";
  const Ended here = run_quire_with_input(chat_line({"--json"}), kQuestion + "\n");
  EXPECT_EQ(document.at("messages"), document_of(here).at("messages")) << "the same answer as without a server";
  EXPECT_EQ(document.at("turns"), document_of(here).at("turns"));
}

TEST(Chat, RefusalsSayWhatToDo) {
  const auto refused = [](const std::vector<std::string>& line) {
    const Ended ended = run_quire_with_input(line, "");
    EXPECT_NE(ended.status, 0);
    EXPECT_EQ(ended.out, "");
    return ended.err;
  };
  EXPECT_THAT(refused({"chat"}), AllOf(HasSubstr("MODEL is missing"), HasSubstr("--base-url URL")));
  EXPECT_THAT(refused({"chat", "--base-url", "https://h"}), HasSubstr("https is not built in"));
  EXPECT_THAT(refused({"chat", "--base-url", "http://127.0.0.1:1"}), HasSubstr("cannot connect: Connection refused"));
  EXPECT_THAT(refused({"chat", "nowhere", "--read-timeout", "5"}), HasSubstr("--read-timeout: there is no server to wait for; it goes with --base-url"));
  EXPECT_THAT(refused({"chat", "--base-url", "http://h", "--read-timeout", "0"}), HasSubstr("--read-timeout '0': must be a number from 0.001"));
  EXPECT_THAT(refused({"chat", "--base-url", "http://h", "--max-num-seqs", "4"}), HasSubstr("--max-num-seqs: --base-url talks with a server that runs already"));
}

}  // namespace
}  // namespace quire::app_test
