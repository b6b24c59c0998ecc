"""serve while somebody sets the wall clock, by hours and decades in both directions: waits, time limits and measured times go by the
steady clock, dates by the wall clock.

SERVED_BINARY is the program, CLOCK_SHIM a library for LD_PRELOAD that moves its wall clock, CLOCK_PROBE a program that waits."""
import contextlib
import http.client
import json
import mmap
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "eval"))
import load  # noqa: E402
from server_process import Server  # noqa: E402

BINARY, SHIM, PROBE = (os.environ[name] for name in ("SERVED_BINARY", "CLOCK_SHIM", "CLOCK_PROBE"))
MODEL = ROOT / "models" / "gsm-tiny"
FLAGS = ["--max-num-seqs", "16", "--kv-cache-memory-bytes", "64M", "--num-threads", "1", "--timeout-keep-alive", "600", "--header-timeout", "600", "--write-timeout", "600"]
SECONDS = 120
HOUR, YEAR = 3600, 365 * 86400
JUMPS = (HOUR, -HOUR, 10 * YEAR, -10 * YEAR, 0, -60 * YEAR, 60 * YEAR, 1, -1)
LONGEST_GAP = 5.0  # seconds between two events of a stream: a step takes milliseconds


class Clock:
    """The file that the shim reads: seconds off, readings, waits for a time of the wall clock."""

    def __init__(self, folder: pathlib.Path):
        self.path = folder / "clock"
        self.path.write_bytes(bytes(24))
        with open(self.path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 24)
        self.environment = {"LD_PRELOAD": SHIM, "TEST_CLOCK_FILE": str(self.path)}

    def set(self, seconds: int):
        self.memory[:8] = struct.pack("q", seconds)

    @property
    def reads(self) -> int:
        return struct.unpack("q", self.memory[8:16])[0]

    @property
    def wall_waits(self) -> int:
        return struct.unpack("q", self.memory[16:24])[0]


class Clocks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.clock = Clock(self.folder)

    def serve(self, *flags: str) -> Server:
        server = Server(pathlib.Path(BINARY), MODEL, self.folder / "log", [*FLAGS, *flags], self.clock.environment)
        self.addCleanup(server.kill)
        server.wait_ready(SECONDS)
        return server

    @contextlib.contextmanager
    def jumping(self):
        """The clock jumps every 50 ms until the end of the block."""
        over = threading.Event()

        def jump():
            turn = 0
            while not over.wait(0.05):
                self.clock.set(JUMPS[turn % len(JUMPS)])
                turn += 1
        thread = threading.Thread(target=jump)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def test_the_shim_sees_what_it_must(self):
        for how, waits in (("condition_wall", 1), ("future_wall", 1), ("condition_steady", 0), ("condition_for", 0), ("future_for", 0)):
            clock = Clock(self.folder)
            clock.set(-YEAR)  # the kernel's clock is a year ahead: a wait until the moved clock's time is over at once
            done = subprocess.run([PROBE, how], env={**os.environ, **clock.environment}, capture_output=True, text=True, timeout=SECONDS, check=True)
            self.assertAlmostEqual(int(done.stdout), time.time() - YEAR, delta=60)
            self.assertEqual(clock.wall_waits, waits, how)

    def test_jumps_while_requests_run(self):
        server = self.serve()
        idle = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)
        idle.request("GET", "/version")
        self.assertEqual(idle.getresponse().read()[:1], b"{")
        with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as slow, self.jumping():
            slow.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n")  # the rest comes later
            begin = last = time.monotonic()
            gap, events = 0.0, 0
            connection = load.Connection(server.port, SECONDS)
            body = {"prompt": "Question: 1 + 1?", "max_tokens": 1500, "ignore_eos": True, "temperature": 1, "n": 4, "stream": True}
            for line in load.lines_of(connection.post("/v1/completions", body)):
                gap, last, events = max(gap, time.monotonic() - last), time.monotonic(), events + 1
            connection.close()
            self.assertEqual(line, "")
            self.assertGreater(events, 1000)
            self.assertLess(gap, LONGEST_GAP)
            self.assertEqual(json.loads(server.get("/ready"))["ready"], True)
            slow.sendall(b"Connection: close\r\n\r\n")
            self.assertTrue(slow.recv(64).startswith(b"HTTP/1.1 200"), "its time was not over")
            idle.request("GET", "/version")
            self.assertEqual(idle.getresponse().read()[:1], b"{", "an idle connection's time was not over")
        elapsed = time.monotonic() - begin
        for name in ("vllm:e2e_request_latency_seconds", "vllm:time_to_first_token_seconds", "vllm:request_queue_time_seconds", "http_request_duration_seconds"):
            seconds = server.counter(name + "_sum")
            self.assertGreaterEqual(seconds, 0, name)
            self.assertLess(seconds, 10 * elapsed, name)
        self.clock.set(10 * YEAR)
        created = server.post("/v1/completions", {"prompt": "1", "max_tokens": 1})["created"]
        self.assertAlmostEqual(created, time.time() + 10 * YEAR, delta=60, msg="a date is the wall clock's")
        self.assertGreater(self.clock.reads, 10)
        self.assertEqual(self.clock.wall_waits, 0, "a wait ended at a time of the wall clock")
        idle.close()
        self.assertEqual(server.stop(SECONDS), 0)

    def test_a_jump_does_not_end_the_time_to_drain(self):
        server = self.serve("--shutdown-timeout", str(SECONDS))
        connection = load.Connection(server.port, SECONDS)
        lines = load.lines_of(connection.post("/v1/completions", {"prompt": "1", "max_tokens": 1000, "ignore_eos": True, "temperature": 1, "stream": True}))
        first = next(lines)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        with self.jumping():
            rest = [line for line in lines if line]
            self.assertEqual(server.process.wait(SECONDS), 0)
        self.assertEqual(load.judge_stream(200, [first, *rest]).outcome, load.WHOLE)
        self.assertEqual(self.clock.wall_waits, 0)


if __name__ == "__main__":
    unittest.main()
