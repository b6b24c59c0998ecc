// The client against a server that does as it is told: whole answers, streams in any pieces, and everything that can go wrong.
#include "http/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "http/fake_server.h"
#include "http/sse_reader.h"
#include "http/target.h"
#include "kit/slowdown.h"

namespace quire::http::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using std::chrono::milliseconds;

std::unique_ptr<Client> client_of(const FakeServer& server, const ClientLimits& limits = {}, const std::string& key = "") {
  auto client = Client::open(parse_base_url(server.url(), "--base-url").value(), key, limits);
  EXPECT_TRUE(client.ok());
  return std::move(client).value();
}

struct Heard {
  std::vector<std::string> events;
  std::vector<Client::Clock::time_point> times;  // of the events
  ClientOutcome outcome;                         // the last one
  int ends = 0;
};
Client::Clock::time_point in(milliseconds time) { return Client::Clock::now() + time; }

// Everything that comes of all open requests.
Heard listen(Client& client) {
  Heard out;
  while (client.num_open() > 0)
    for (ClientEvent& e : client.wait(in(milliseconds(30000 * quire::test::kSlowdown)))) {
      if (!e.end.has_value()) {
        out.events.push_back(e.data);
        out.times.push_back(e.arrived);
      } else {
        out.outcome = std::move(*e.end);
        ++out.ends;
      }
    }
  return out;
}
Heard listen(Client& client, const ClientRequest& request) {
  client.send(request);
  return listen(client);
}
const ClientRequest kAny{.path = "/v1/completions", .body = "{}"};

TEST(Target, ReadsWhatUsersGive) {
  const Target plain = parse_base_url("http://localhost:8000", "--base-url").value();
  EXPECT_EQ(plain.host, "localhost");
  EXPECT_EQ(plain.port, "8000");
  EXPECT_EQ(plain.base_path, "");
  EXPECT_EQ(plain.authority(), "localhost:8000");
  EXPECT_EQ(parse_base_url("http://h/v1/", "f").value().base_path, "");
  EXPECT_EQ(parse_base_url("http://h/gate/way/v1", "f").value().base_path, "/gate/way");
  EXPECT_EQ(parse_base_url("HTTP://h", "f").value().authority(), "h");
  const Target six = parse_base_url("http://[::1]:9", "f").value();
  EXPECT_EQ(six.host, "::1");
  EXPECT_EQ(six.authority(), "[::1]:9");
}

TEST(Target, RefusesTheRestByName) {
  const auto error = [](const std::string& url) { return parse_base_url(url, "--base-url").error().message; };
  EXPECT_THAT(error("https://h"), AllOf(HasSubstr("--base-url 'https://h'"), HasSubstr("https is not built in")));
  for (const char* url : {"", "localhost:8000", "ftp://h", "http://", "http://:1", "http://h:0", "http://h:65536", "http://h:x", "http://[::1", "http://[::1]x", "http://u@h", "http://h?x", "http://h#x"})
    EXPECT_THAT(error(url), HasSubstr("http://HOST:PORT")) << url;
  EXPECT_THAT(error("http://h\r\nX: y"), HasSubstr("not printable"));
}

TEST(SseReader, AnyPieceSizeGivesTheSameEvents) {
  const std::string bytes = ": a comment\r\ndata: one\r\n\r\ndata: two\ndata:  lines\nid: 7\nevent: x\n\n\n\nretry: 5\n\rdata\r\rdata:[DONE]\n\ndata: cut off";
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    SseReader reader(1000);
    std::vector<std::string> events;
    for (std::size_t at = 0; at < bytes.size(); at += size) ASSERT_TRUE(reader.feed(std::string_view(bytes).substr(at, size), events).ok());
    EXPECT_THAT(events, ElementsAre("one", "two\n lines", "", "[DONE]")) << "pieces of " << size;
  }
}

TEST(SseReader, BoundsAnEvent) {
  for (const std::string& bytes : {std::string(101, 'x'), "data: " + std::string(60, 'x') + "\ndata: " + std::string(60, 'y') + "\n"}) {
    SseReader reader(100);
    std::vector<std::string> events;
    EXPECT_THAT(reader.feed(bytes, events).error().message, HasSubstr("more than 100 bytes"));
  }
}

TEST(Client, AsksAndGetsAWholeAnswer) {
  FakeServer server([](const std::string&) { return ServerAnswer{{{json_answer(R"({"a":1})")}}}; });
  const auto client = client_of(server, {}, "secret");
  const ClientOutcome outcome = ask(*client, {.path = "/v1/completions", .body = R"({"model":"m"})"});
  EXPECT_TRUE(outcome.ok()) << outcome.failure;
  EXPECT_EQ(outcome.body, R"({"a":1})");
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_THAT(requests[0], AllOf(StartsWith("POST /v1/completions HTTP/1.1\r\n"), HasSubstr("Host: 127.0.0.1:" + std::to_string(server.port()) + "\r\n"), HasSubstr("Authorization: Bearer secret\r\n"),
                                 HasSubstr("Content-Length: 13\r\n"), ::testing::EndsWith("\r\n\r\n{\"model\":\"m\"}")));
  EXPECT_TRUE(ask(*client, {.method = "GET", .path = "/v1/models"}).ok()) << "it runs again";
}

TEST(Client, AnswersWithoutALengthEndWithTheConnection) {
  FakeServer server([](const std::string&) { return ServerAnswer{{{"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"a\""}, {":1}", milliseconds(5)}}}; });
  EXPECT_EQ(ask(*client_of(server), {}).body, R"({"a":1})");
}

TEST(Client, StreamsHoweverTheyAreCut) {
  const std::string whole = stream_head() + chunk(event("one") + "data: tw") + chunk("o\n\n") + chunk(event(std::string(40000, 'x'))) + stream_end();
  for (const std::size_t size : {std::size_t{1000}, std::size_t{37}, whole.size()}) {
    FakeServer server([&](const std::string&) {
      ServerAnswer answer;
      for (std::size_t at = 0; at < whole.size(); at += size) answer.pieces.push_back({whole.substr(at, size)});
      return answer;
    });
    const Heard heard = listen(*client_of(server), kAny);
    EXPECT_EQ(heard.outcome.failure, "");
    EXPECT_EQ(heard.outcome.status, 200);
    EXPECT_EQ(heard.ends, 1);
    ASSERT_EQ(heard.events.size(), 3u) << size;
    EXPECT_EQ(heard.events[1], "two");
    EXPECT_EQ(heard.events[2].size(), 40000u);
  }
}

TEST(Client, EventsComeWithTheirTimes) {
  FakeServer server([](const std::string&) { return ServerAnswer{{{stream_head() + chunk(event("a"))}, {chunk(event("b")), milliseconds(120)}, {chunk(event("c")), milliseconds(60)}, {stream_end()}}}; });
  const std::vector<Client::Clock::time_point> times = listen(*client_of(server), kAny).times;
  ASSERT_EQ(times.size(), 3u);
  EXPECT_GE(times[1] - times[0], milliseconds(100)) << "the server waited longer than that";
  EXPECT_GE(times[2] - times[1], milliseconds(40));
}

TEST(Client, RefusalsAreWholeAnswers) {
  FakeServer server([](const std::string&) { return ServerAnswer{{{json_answer(R"({"error":{"message":"full"}})", "503 Service Unavailable")}}}; });
  const Heard heard = listen(*client_of(server), kAny);
  EXPECT_EQ(heard.outcome.failure, "");
  EXPECT_EQ(heard.outcome.status, 503);
  EXPECT_FALSE(heard.outcome.ok());
  EXPECT_THAT(heard.outcome.body, HasSubstr("full"));
  EXPECT_THAT(heard.events, IsEmpty());
}

TEST(Client, BrokenAnswersAreFailures) {
  const std::pair<std::vector<ServerPiece>, const char*> cases[] = {
      {{}, "the connection ended before an answer"},
      {{{"no HTTP at all\r\n\r\n"}}, "the answer is not HTTP"},
      {{{"HTTP/1.1 200 OK\r\nX: " + std::string(100000, 'x') + "\r\n\r\n"}}, "the answer is not HTTP"},
      {{{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"}}, "the connection ended within the answer"},
      {{{stream_head() + chunk(event("a"))}}, "the connection ended within the answer"},
      {{{stream_head() + chunk("data: " + std::string(2000, 'x'))}}, "more than 1000 bytes"},
      {{{json_answer(std::string(3000, 'x'))}}, "more than 2000 bytes"},
      {{{stream_head() + "zz\r\n"}}, "the answer is not HTTP"},
  };
  for (const auto& [pieces, failure] : cases) {
    FakeServer server([&pieces = pieces](const std::string&) { return ServerAnswer{pieces}; });
    const Heard heard = listen(*client_of(server, {.max_event_bytes = 1000, .max_body_bytes = 2000}), kAny);
    EXPECT_THAT(heard.outcome.failure, HasSubstr(failure));
    EXPECT_EQ(heard.ends, 1);
  }
}

TEST(Client, SilenceIsBounded) {
  FakeServer server([](const std::string&) { return ServerAnswer{{{stream_head() + chunk(event("a"))}}, AtEnd::kStayOpen}; });
  const Heard heard = listen(*client_of(server, {.silence = milliseconds(80)}), kAny);
  EXPECT_EQ(heard.outcome.failure, "the server sent nothing for 80 ms");
  EXPECT_THAT(heard.events, ElementsAre("a"));
}

// Each byte is a sign of life, and none of them an answer.
TEST(Client, AWholeAnswerTakesOnlySoLong) {
  const auto drips = [](const std::string& head, const std::string& drop) {
    ServerAnswer answer{{{head}}, AtEnd::kStayOpen};
    for (int i = 0; i < 100; ++i) answer.pieces.push_back({drop, milliseconds(20)});
    return answer;
  };
  const ServerAnswer answers[] = {drips("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n", "x"), drips("HTTP/1.1 200 OK\r\nX: ", "x"), drips(stream_head(), chunk(event("never the last")))};
  for (const ServerAnswer& answer : answers) {
    FakeServer server([&](const std::string&) { return answer; });
    const auto client = client_of(server, {.silence = milliseconds(10000), .whole = milliseconds(150)});
    const auto from = Client::Clock::now();
    const ClientOutcome outcome = ask(*client, {.method = "GET", .path = "/v1/models"});
    EXPECT_EQ(outcome.failure, "no whole answer within 150 ms");
    EXPECT_LT(Client::Clock::now() - from, milliseconds(1500 * quire::test::kSlowdown));
    EXPECT_EQ(client->num_open(), 0u) << "and the next one can be asked";
  }
}

// The bound is of whole answers: a stream may take as long as it says something.
TEST(Client, AStreamMayTakeLonger) {
  FakeServer server([](const std::string&) { return ServerAnswer{{{stream_head() + chunk(event("a"))}, {chunk(event("b")), milliseconds(120)}, {stream_end()}}}; });
  const Heard heard = listen(*client_of(server, {.whole = milliseconds(20)}), kAny);
  EXPECT_EQ(heard.outcome.failure, "");
  EXPECT_THAT(heard.events, ElementsAre("a", "b"));
}

TEST(Client, NobodyListens) {
  int port = 0;
  {
    FakeServer server([](const std::string&) { return ServerAnswer{}; });
    port = server.port();
  }
  const auto client = Client::open(parse_base_url("http://127.0.0.1:" + std::to_string(port), "f").value(), "", {});
  ASSERT_TRUE(client.ok());
  EXPECT_EQ(listen(*client.value(), kAny).outcome.failure, "cannot connect: Connection refused");
}

TEST(Client, UnknownHostsAndBadKeysAreRefusedAtOnce) {
  EXPECT_THAT(Client::open(parse_base_url("http://no.such.name.invalid", "f").value(), "", {}).error().message, HasSubstr("cannot find the host 'no.such.name.invalid'"));
  EXPECT_THAT(Client::open(parse_base_url("http://127.0.0.1", "f").value(), "a\r\nb", {}).error().message, HasSubstr("API key"));
}

TEST(Client, CancellingClosesTheConnection) {
  FakeServer server([](const std::string&) { return ServerAnswer{{{stream_head() + chunk(event("a"))}}, AtEnd::kStayOpen}; });
  const auto client = client_of(server);
  const Client::Id id = client->send(kAny);
  const auto first = client->wait(in(milliseconds(30000 * quire::test::kSlowdown)));
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].data, "a");
  EXPECT_EQ(first[0].id, id);
  client->cancel(id);
  client->cancel(id);
  const Heard heard = listen(*client);
  EXPECT_THAT(heard.events, IsEmpty()) << "nothing after it was cancelled";
  EXPECT_EQ(heard.outcome.failure, Client::kCancelled);
  EXPECT_EQ(heard.ends, 1);
  client->cancel(id);
  EXPECT_EQ(client->num_open(), 0u);
  for (int i = 0; i < 500 && server.clients_gone() == 0; ++i) EXPECT_TRUE(client->wait(in(milliseconds(10))).empty());
  EXPECT_EQ(server.clients_gone(), 1);
}

TEST(Client, ManyAtOnce) {
  FakeServer server([](const std::string&) { return ServerAnswer{{{stream_head() + chunk(event("x")), milliseconds(50)}, {stream_end()}}}; });
  const auto client = client_of(server);
  for (int i = 0; i < 20; ++i) client->send(kAny);
  EXPECT_EQ(client->num_open(), 20u);
  const Heard heard = listen(*client);
  EXPECT_EQ(heard.ends, 20);
  EXPECT_EQ(heard.events.size(), 20u);
}

TEST(Client, WaitingIsBounded) {
  FakeServer server([](const std::string&) { return ServerAnswer{{}, AtEnd::kStayOpen}; });
  const auto client = client_of(server);
  for (const bool open : {false, true}) {
    if (open) client->send(kAny);
    const auto from = Client::Clock::now();
    EXPECT_TRUE(client->wait(in(milliseconds(40))).empty());
    EXPECT_GE(Client::Clock::now() - from, milliseconds(40)) << open;
  }
}

}  // namespace
}  // namespace quire::http::test
