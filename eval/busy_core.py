"""Throughput of a server alone and while another process keeps one core busy: busy_core.py BASE_URL MODEL [--seconds N] [--limit X]

Concurrent completions of a fixed number of tokens, end tokens ignored; three equal phases (alone, busy, alone) of N seconds each, at
most 60 s together. The busy process is pinned to one core, so that the scheduler cannot move it out of the way. Prints one line and
exits 1 when the better phase alone is more than X times (3) the busy one.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import time
import urllib.request

CLIENTS = 8
TOKENS = 64
PROMPT = "Question: Ada has 3 apples. Ada buys 4 more apples. How many apples does Ada have now?\nAnswer:"


def complete(url: str, model: str) -> int:
    body = {"model": model, "prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)["usage"]["completion_tokens"]


def tokens_per_second(url: str, model: str, seconds: float) -> float:
    start = time.monotonic()

    def client(_: int) -> int:
        done = 0
        while time.monotonic() - start < seconds:
            done += complete(url, model)
        return done

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        tokens = sum(pool.map(client, range(CLIENTS)))
    return tokens / (time.monotonic() - start)


def measure(url: str, model: str, seconds: float) -> tuple[float, float]:
    """(tokens/s alone, tokens/s with one core busy)."""
    complete(url, model)
    before = tokens_per_second(url, model, seconds)
    core = max(os.sched_getaffinity(0))
    spin = f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile os.getppid() == {os.getpid()}:\n  for _ in range(10**6): pass"
    busy = subprocess.Popen([sys.executable, "-c", spin])
    try:
        during = tokens_per_second(url, model, seconds)
    finally:
        busy.kill()
        busy.wait()
    return max(before, tokens_per_second(url, model, seconds)), during


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--limit", type=float, default=3.0)
    arguments = parser.parse_args()
    if not 0 < arguments.seconds <= 20:
        parser.error("--seconds: between 0 and 20 (three phases)")
    try:
        alone, busy = measure(arguments.url.rstrip("/"), arguments.model, arguments.seconds)
    except OSError as error:
        sys.exit(f"{arguments.url}: {error}")
    ratio = alone / max(busy, 1e-9)
    print(f"{alone:.0f} tokens/s alone, {busy:.0f} with one core busy: {ratio:.2f}x slower (limit {arguments.limit:g}x)")
    return 1 if ratio > arguments.limit else 0


if __name__ == "__main__":
    sys.exit(main())
