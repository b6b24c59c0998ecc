"""A server for minutes under clients that ask, leave, read slowly, break the rules and reset connections; eval/soak.sh starts this.

All through the run one fixed request (the canary) must get the answer that it got before the load, and /health must say 200. Afterwards
nothing may be left: no request, no block, no thread, no descriptor more than before, and memory must have stopped growing."""
import argparse
import json
import os
import pathlib
import re
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import load  # noqa: E402
import soak_clients  # noqa: E402
from server_checks import READY_SECONDS, stopped_cleanly  # noqa: E402
from server_process import Server  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "models" / "gsm-tiny"
# Small limits, so that queues fill, blocks run out, sequences are preempted and slow readers are cut off.
FLAGS = ["--max-num-seqs", "24", "--max-model-len", "1024", "--block-size", "16", "--num-gpu-blocks-override", "320", "--max-queue", "48", "--write-timeout", "4", "--header-timeout", "3",
         "--timeout-keep-alive", "2", "--max-connections", "64", "--num-threads", "1"]
CANARY = {"prompt": "Question: Ada has 3 apples and buys 4 more. How many has she?\nAnswer:", "max_tokens": 40, "temperature": 0, "logprobs": 2}
CANARY_SECONDS, SAMPLE_SECONDS = 1.0, 1.0
QUIET_SECONDS = 60  # for everything to end afterwards; a bound for hanging
# Resident memory, over the second half of the run: the growth of a line through the samples. A leak of 64 bytes in each request is
# 2 MiB in ten minutes of 60 requests per second. Runs under five minutes are still filling the allocator's arenas.
MAX_GROWTH_MIB, MAX_GROWTH_SHORT_MIB = 2.0, 8.0


class Process:
    """What the system says of a process."""

    def __init__(self, pid: int):
        self.folder = pathlib.Path("/proc") / str(pid)

    def resident_mib(self) -> float:
        return int(re.search(r"^VmRSS:\s+(\d+)", (self.folder / "status").read_text(), re.M)[1]) / 1024

    def threads(self) -> int:
        return len(os.listdir(self.folder / "task"))

    def descriptors(self) -> int:
        return len(os.listdir(self.folder / "fd"))


def growth_mib(samples: list[tuple[float, float]]) -> float:
    """Of a least-squares line through (seconds, MiB), from its first sample to its last."""
    n = len(samples)
    if n < 2:
        return 0.0
    mean_t, mean_m = sum(t for t, _ in samples) / n, sum(m for _, m in samples) / n
    slope = sum((t - mean_t) * (m - mean_m) for t, m in samples) / sum((t - mean_t) ** 2 for t, _ in samples)
    return slope * (samples[-1][0] - samples[0][0])


class Watch:
    """The canary, the health route and the memory, each on its own thread until `over`."""

    def __init__(self, server: Server, process: Process, over: threading.Event):
        self.server, self.process, self.over = server, process, over
        self.wanted = self.canary()
        self.canaries, self.busy, self.wrong, self.health, self.samples, self.slowest = 0, 0, [], [], [], 0.0
        self.threads = [threading.Thread(target=self.loop, args=each) for each in ((self.look_at_canary, CANARY_SECONDS), (self.look_at_health, 1.0), (self.look_at_memory, SAMPLE_SECONDS))]

    def canary(self) -> str:
        answer = load.ask(self.server.port, "/v1/completions", CANARY)
        if answer.outcome == load.ERROR and answer.status in (429, 503):
            return ""  # the queue or the connections are full, as they may be
        return answer.text if answer.outcome != load.WHOLE else json.dumps(json.loads(answer.text)["choices"])

    def loop(self, look, pause: float):
        while not self.over.wait(pause):
            try:
                look()
            except (OSError, ValueError, KeyError) as error:
                self.wrong.append(f"{look.__name__}: {type(error).__name__}: {error}")

    def look_at_canary(self):
        begin = time.monotonic()
        got = self.canary()
        self.slowest = max(self.slowest, time.monotonic() - begin)
        self.canaries, self.busy = self.canaries + bool(got), self.busy + (not got)
        if got and got != self.wanted:
            self.wrong.append(f"canary: {got[:300]}")

    def look_at_health(self):
        status = soak_clients.status_of(self.server.port, "/health")
        self.health.append(status)

    def look_at_memory(self):
        self.samples.append((time.monotonic(), self.process.resident_mib()))


def settled(server: Server, process: Process, before: tuple[int, int]) -> tuple[bool, str]:
    """Waits until nothing runs and threads and descriptors are as before."""
    until, text = time.monotonic() + QUIET_SECONDS, ""
    while time.monotonic() < until:
        held = {name: server.counter(name) for name in ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")}
        now = (process.threads(), process.descriptors())
        text = f"{held['vllm:num_requests_running']:.0f} running, {held['vllm:num_requests_waiting']:.0f} waiting, {held['vllm:kv_cache_usage_perc']:.4f} of the blocks held, {now[0]} threads (before: {before[0]}), {now[1]} descriptors (before: {before[1]})"
        if not any(held.values()) and now[0] == before[0] and now[1] <= before[1]:
            return True, text
        time.sleep(0.5)
    return False, text


def judge(watch: Watch, clients: soak_clients.Clients, arguments: argparse.Namespace) -> list[tuple[str, bool, str]]:
    half = watch.samples[len(watch.samples) // 2:]
    growth, limit = growth_mib(half), MAX_GROWTH_MIB if arguments.minutes >= 5 else MAX_GROWTH_SHORT_MIB
    sanitized = arguments.preset in ("asan", "tsan")  # they keep freed memory
    rows = [("canary", not watch.wrong and watch.canaries > 0, f"{watch.canaries} times the same answer, {watch.busy} times refused for load, slowest {watch.slowest:.2f} s; wrong: {watch.wrong[:3] or 'none'}"),
            ("health", set(watch.health) == {200}, f"{len(watch.health)} times asked: {sorted(set(watch.health))}"),
            ("memory", sanitized or growth <= limit, f"RSS {watch.samples[0][1]:.1f} MiB at the begin, {watch.samples[-1][1]:.1f} at the end, {growth:+.2f} over the second half (at most {limit:.0f}{', not judged under sanitizers' if sanitized else ''})")]
    hanging = sum(thread.is_alive() for thread in clients.threads)
    rows.append(("clients", not clients.ended_early and hanging == 0, f"{len(clients.threads)} to the end; ended early: {clients.ended_early or 'none'}; hanging {QUIET_SECONDS} s after it: {hanging}"))
    for kind in soak_clients.KINDS:
        counts = clients.counts[kind]
        rows.append((kind, not clients.wrong[kind] and sum(counts.values()) > 0, ", ".join(f"{n} {what}" for what, n in sorted(counts.items())) + (f"; wrong: {clients.wrong[kind][:3]}" if clients.wrong[kind] else "")))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--preset", default="release", help="build/PRESET/bin/quire is tested (release)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path, help="write the figures to this file, too")
    arguments = parser.parse_args()
    out = ROOT / "build" / "soak" / arguments.preset
    print(f"==> {arguments.minutes:g} minutes of random clients against build/{arguments.preset}/bin/quire, seed {arguments.seed}; log in {out.relative_to(ROOT)}", flush=True)
    with Server(ROOT / "build" / arguments.preset / "bin" / "quire", MODEL, out / "server.log", FLAGS) as server:
        server.wait_ready(READY_SECONDS)
        process, over = Process(server.process.pid), threading.Event()
        watch = Watch(server, process, over)
        time.sleep(3)  # keep-alive of the connections so far
        before = (process.threads(), process.descriptors())
        clients = soak_clients.Clients(server.port, arguments.seed, over)
        watch.look_at_memory()
        for thread in watch.threads + clients.threads:
            thread.start()
        end = time.monotonic() + arguments.minutes * 60
        while time.monotonic() < end and server.process.poll() is None:
            time.sleep(min(30.0, max(0.0, end - time.monotonic())))
            print(f"    {(arguments.minutes * 60 - max(0.0, end - time.monotonic())) / 60:5.1f} min: {sum(map(lambda c: sum(c.values()), clients.counts.values()))} requests, {watch.samples[-1][1]:.1f} MiB", flush=True)
        over.set()
        for thread in watch.threads + clients.threads:
            thread.join(QUIET_SECONDS)
        rows = judge(watch, clients, arguments)
        rows.append(("nothing_left", *settled(server, process, before)))
        rows.append(("canary_after", watch.canary() == watch.wanted, "the answer from before the load"))
        rows.append(("preempted", server.counter("vllm:num_preemptions_total") > 0, f"{server.counter('vllm:num_preemptions_total'):.0f} preemptions, {server.counter('quire:queue_rejected_total'):.0f} refusals of a full queue"))
        rows.append(("clean_stop", *stopped_cleanly(server)))
    for name, passed, detail in rows:
        print(f"{name:<14} {'ok' if passed else 'FAILED':<6} {detail}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"minutes": arguments.minutes, "seed": arguments.seed, "rows": rows, "rss_mib": [round(m, 1) for _, m in watch.samples]}, indent=1) + "\n")
    failed = sum(not passed for _, passed, _ in rows)
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
