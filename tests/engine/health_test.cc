// Verdicts of the health thread, for made-up states and for a real engine that starts, works, hangs and drains.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/json.h"
#include "engine/health.h"
#include "fake_executor.h"

namespace quire::engine::test {
namespace {

using namespace std::chrono_literals;
using State = EngineStatus::State;
using Stage = EngineStatus::Stage;

EngineStatus status_of(State state, Stage stage = Stage::kIdle, std::int64_t stage_ms = 0, std::int64_t step_ms = 0) {
  EngineStatus status;
  status.state = state;
  status.stage = stage;
  status.stage_ms = stage_ms;
  status.step_running_ms = step_ms;
  status.num_running = 2;
  status.num_waiting = 5;
  return status;
}

TEST(Health, JudgesEveryState) {
  const HealthConfig config;
  const auto judged = [&](const EngineStatus& s) { return judge(s, "loading weights 43 %", config); };
  const HealthVerdict starting = judged(status_of(State::kStarting));
  EXPECT_TRUE(starting.live);
  EXPECT_FALSE(starting.ready);
  EXPECT_EQ(starting.text, "starting: loading weights 43 %");
  const HealthVerdict ready = judged(status_of(State::kReady, Stage::kExecuting, 100, 100));
  EXPECT_TRUE(ready.live);
  EXPECT_TRUE(ready.ready);
  const HealthVerdict draining = judged(status_of(State::kDraining, Stage::kExecuting, 100, 100));
  EXPECT_TRUE(draining.live);
  EXPECT_FALSE(draining.ready);
  EXPECT_EQ(draining.text, "draining: 7 requests left");
  EngineStatus dead = status_of(State::kFailed);
  dead.failure = "3 steps in a row failed";
  EXPECT_FALSE(judged(dead).live);
  EXPECT_FALSE(judged(dead).ready);
  EXPECT_EQ(judged(dead).text, "failed: 3 steps in a row failed");
  EXPECT_FALSE(judged(status_of(State::kStopped)).ready);
}

TEST(Health, AStageBeyondTheBoundIsStuckAndNamed) {
  const HealthConfig config{.max_step_seconds = 2.0};
  EXPECT_TRUE(judge(status_of(State::kReady, Stage::kExecuting, 1999, 2000), "", config).live);
  for (const auto& [stage, name] : {std::pair{Stage::kExecuting, "executing a step"}, std::pair{Stage::kSubmitting, "submitting a step"},
                                    std::pair{Stage::kScheduling, "scheduling"}, std::pair{Stage::kDelivering, "delivering results"}}) {
    const HealthVerdict verdict = judge(status_of(State::kReady, stage, 2100, 0), "", config);
    EXPECT_FALSE(verdict.live);
    EXPECT_FALSE(verdict.ready);
    EXPECT_NE(verdict.text.find(name), std::string::npos) << verdict.text;
    EXPECT_NE(verdict.text.find("2.1 s"), std::string::npos) << verdict.text;
  }
  // A step that is polled in many short stages is stuck all the same; a long idle time is not.
  EXPECT_FALSE(judge(status_of(State::kReady, Stage::kExecuting, 1, 2100), "", config).live);
  EXPECT_FALSE(judge(status_of(State::kDraining, Stage::kExecuting, 2100, 2100), "", config).live);
  EXPECT_TRUE(judge(status_of(State::kReady, Stage::kIdle, 1'000'000'000, 0), "", config).ready);
}

TEST(Health, JsonIsOneObjectWhateverTheTextHolds) {
  const HealthVerdict verdict = judge(status_of(State::kStarting), "reading \"a\\b\"\n", {});
  const auto parsed = parse_json(verdict.json);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const auto& object = parsed.value().as_object();
  EXPECT_EQ(object.at("live"), true);
  EXPECT_EQ(object.at("ready"), false);
  EXPECT_EQ(object.at("state"), "starting");
  EXPECT_EQ(object.at("num_requests_waiting"), 5);
}

// Waits for the monitor to say so; the bound is generous because the machine may be busy.
template <class Predicate>
bool eventually(const HealthMonitor& monitor, Predicate predicate) {
  const auto end = std::chrono::steady_clock::now() + 10s;
  while (!predicate(monitor.verdict())) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

TEST(Health, FollowsAnEngineFromStartToStop) {
  HealthMonitor monitor(HealthConfig{.max_step_seconds = 0.15, .period = 5ms});
  EXPECT_FALSE(monitor.ready());
  EXPECT_TRUE(monitor.live());
  monitor.set_progress("loading weights 43 %");
  EXPECT_TRUE(eventually(monitor, [](const HealthVerdict& v) { return v.text == "starting: loading weights 43 %" && !v.ready; }));

  Bench bench(small_config(), false);
  monitor.attach(bench.engine);
  EXPECT_TRUE(eventually(monitor, [](const HealthVerdict& v) { return !v.ready && v.live; }));
  bench.engine->start();
  EXPECT_TRUE(eventually(monitor, [](const HealthVerdict& v) { return v.ready; }));

  bench.control->hold();
  bench.submit(make_request({1, 2, 3}, 4));
  EXPECT_TRUE(eventually(monitor, [](const HealthVerdict& v) { return !v.live && !v.ready && v.text.find("stuck: executing a step") == 0; }))
      << monitor.verdict().text;
  EXPECT_FALSE(monitor.live());
  bench.control->allow_all();
  ASSERT_TRUE(bench.consumer.wait_finishes(1));
  EXPECT_TRUE(eventually(monitor, [](const HealthVerdict& v) { return v.live && v.ready; }));

  bench.control->hold();
  bench.submit(make_request({1, 2, 3}, 4));
  std::thread stopper([&] { bench.engine->stop(10s); });
  EXPECT_TRUE(eventually(monitor, [](const HealthVerdict& v) { return !v.ready && v.text.find("draining: 1 requests left") == 0; }))
      << monitor.verdict().text;
  bench.control->allow_all();
  stopper.join();
  EXPECT_TRUE(eventually(monitor, [](const HealthVerdict& v) { return v.text == "stopped"; }));
  monitor.detach();
}

}  // namespace
}  // namespace quire::engine::test
