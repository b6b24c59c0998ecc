"""serve as a process whose world breaks: killed under load, told to stop under load, no room for its log, nobody who reads it.

SERVED_BINARY is the program."""
import concurrent.futures
import http.client
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "eval"))
import load  # noqa: E402
from server_process import Server  # noqa: E402

BINARY = pathlib.Path(os.environ["SERVED_BINARY"]).resolve()
SLOWDOWN = int(os.environ.get("TEST_SLOWDOWN", "1"))
MODEL = ROOT / "models" / "gsm-tiny"
FLAGS = ["--max-num-seqs", "4", "--kv-cache-memory-bytes", "64M", "--num-threads", "1"]
SECONDS = 120 * SLOWDOWN  # bounds for hanging
CANARY = {"prompt": "Question: Ada has 3 apples and buys 4 more. How many has she?\nAnswer:", "max_tokens": 24, "temperature": 0, "logprobs": 2}


def long_request(i: int, tokens: int) -> tuple[str, dict]:
    """Streams and whole answers, completions and chats in turn."""
    body = {"max_tokens": tokens, "ignore_eos": True, "temperature": 1, "seed": i, "stream": i % 2 == 0}
    if i % 4 < 2:
        return "/v1/completions", {**body, "prompt": f"Question {i}: 1 + 1?"}
    return "/v1/chat/completions", {**body, "messages": [{"role": "user", "content": f"{i} + 1?"}]}


def choices(answer: load.Answer) -> str:
    return re.sub(r'"(id|created)":("[^"]*"|-?\d+)', "", answer.text)


class ServerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.pool = concurrent.futures.ThreadPoolExecutor(64)
        self.addCleanup(self.pool.shutdown)

    def serve(self, *flags: str, port: int | None = None, environment: dict[str, str] | None = None) -> Server:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        server = Server(BINARY, MODEL, self.folder / "log", [*FLAGS, *flags], {"HOME": str(home), "TMPDIR": str(home), **(environment or {})}, port=port, folder=home)
        self.addCleanup(server.kill)
        server.wait_ready(SECONDS)
        return server

    def start(self, server: Server, requests: list[tuple[str, dict]]) -> list[concurrent.futures.Future]:
        """Sends them at once and waits until the engine has them all."""
        running = [self.pool.submit(load.ask, server.port, path, body, SECONDS) for path, body in requests]
        until = time.monotonic() + SECONDS
        while server.counter("vllm:num_requests_running") + server.counter("vllm:num_requests_waiting") + sum(r.done() for r in running) < len(requests):
            self.assertLess(time.monotonic(), until, "the requests did not reach the engine")
            time.sleep(0.02)
        return running


class Killed(ServerTest):
    def test_another_one_serves_on_the_same_port_and_nothing_is_left(self):
        shared_memory = set(os.listdir("/dev/shm"))
        server = self.serve()
        before = load.ask(server.port, "/v1/completions", CANARY, SECONDS)
        self.assertEqual(before.outcome, load.WHOLE, before.detail)
        for _ in range(2):
            running = self.start(server, [long_request(i, 1900) for i in range(12)])
            server.process.send_signal(signal.SIGKILL)
            self.assertEqual(server.process.wait(SECONDS), -signal.SIGKILL)
            for future in running:
                self.assertIn(future.result(SECONDS).outcome, (load.CUT, load.NONE), "nobody waits for a server that is gone")
            self.assertEqual(os.listdir(self.folder / "home"), [])
            self.assertEqual({name for name in set(os.listdir("/dev/shm")) - shared_memory if "quire" in name}, set())
            server = self.serve(port=server.port)
            after = load.ask(server.port, "/v1/completions", CANARY, SECONDS)
            self.assertEqual(choices(after), choices(before))
        self.assertEqual(server.stop(SECONDS), 0)

    def test_a_unix_socket_is_taken_over_and_removed_at_the_end(self):
        path = self.folder / "socket"
        for killed in (True, True, False):
            process = subprocess.Popen([str(BINARY), "serve", str(MODEL), *FLAGS, "--uds", str(path)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            self.addCleanup(process.kill)
            until = time.monotonic() + SECONDS
            while not self.ready(path):
                self.assertIsNone(process.poll(), "it must not stumble over the dead one's socket")
                self.assertLess(time.monotonic(), until)
                time.sleep(0.05)
            process.send_signal(signal.SIGKILL if killed else signal.SIGTERM)
            process.wait(SECONDS)
            self.assertEqual(path.exists(), killed)

    @staticmethod
    def ready(path: pathlib.Path) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(SECONDS)
                s.connect(str(path))
                s.sendall(b"GET /ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                return s.recv(64).startswith(b"HTTP/1.1 200")
        except OSError:
            return False


class Terminated(ServerTest):
    def test_with_time_every_client_gets_its_whole_answer(self):
        server = self.serve("--shutdown-timeout", str(SECONDS))
        running = self.start(server, [long_request(i, 100) for i in range(24)])
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(SECONDS), 0, server.tail())
        for future in running:
            answer = future.result(SECONDS)
            self.assertEqual(answer.outcome, load.WHOLE, answer)
        late = load.ask(server.port, "/v1/completions", CANARY, SECONDS)
        self.assertEqual(late.outcome, load.NONE, late)

    def test_without_time_every_client_gets_an_answer_or_an_error_within_the_bound(self):
        server = self.serve("--shutdown-timeout", "1")
        running = self.start(server, [long_request(i, 1900) for i in range(24)])
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        late = load.ask(server.port, "/v1/completions", CANARY, SECONDS)
        self.assertIn(late.outcome, (load.NONE, load.ERROR), late)
        self.assertEqual(server.process.wait(SECONDS), 0, server.tail())
        self.assertLess(time.monotonic() - begin, 1 + 4 * SLOWDOWN)
        answers = [future.result(SECONDS) for future in running]
        self.assertEqual({answer.outcome for answer in answers} - {load.WHOLE, load.ERROR}, set(), answers)
        errors = [answer for answer in answers if answer.outcome == load.ERROR]
        self.assertEqual({answer.status for answer in errors}, {200, 503}, "streams, and answers in one piece")
        for answer in errors:
            self.assertIn("--shutdown-timeout", answer.detail)


class Log(ServerTest):
    """The log's file or pipe takes nothing more; the server serves, counts, and says so once when it can."""
    NUM_REQUESTS = 40

    def serve_verbosely(self) -> Server:
        return self.serve(environment={"QUIRE_LOG_LEVEL": "debug"})

    def burst(self, server: Server):
        for i in range(self.NUM_REQUESTS):
            answer = load.ask(server.port, "/v1/completions", {"prompt": "1 + 1", "max_tokens": 2, "stream": i % 2 == 0}, SECONDS)
            self.assertEqual(answer.outcome, load.WHOLE, answer)
        self.assertEqual(http_status(server, "/health"), 200)

    def expect_told_once(self, server: Server, text: str, reason: str):
        lost = int(server.counter("quire:log_lines_lost"))
        told = re.findall(r"log: (\d+) lines? could not be written: (.*)", text)
        self.assertEqual(told, [(str(lost), reason)])
        self.assertGreater(lost, self.NUM_REQUESTS)
        self.assertEqual(server.stop(SECONDS), 0)

    def test_a_file_at_its_limit(self):
        server = self.serve_verbosely()
        self.burst(server)
        time.sleep(0.3)  # the last line comes after the last answer
        size = server.log.stat().st_size
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size + 100, resource.RLIM_INFINITY))
        self.burst(server)
        self.assertEqual(server.log.stat().st_size, size + 100)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self.burst(server)
        self.expect_told_once(server, server.log.read_text(), "File too large")

    def test_a_full_disk(self):
        disk = self.folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True).returncode != 0:
            self.skipTest("this user may not mount a small disk")
        self.addCleanup(subprocess.run, ["umount", "--lazy", str(disk)], check=True)
        server = Server(BINARY, MODEL, disk / "log", FLAGS, {"QUIRE_LOG_LEVEL": "debug"})
        self.addCleanup(server.kill)
        server.wait_ready(SECONDS)
        with open(disk / "filler", "wb", buffering=0) as filler:
            try:
                while filler.write(b"x" * 4096):
                    pass
            except OSError:
                pass
        self.burst(server)
        self.burst(server)
        (disk / "filler").unlink()
        self.burst(server)
        self.expect_told_once(server, server.log.read_text(), "No space left on device")

    def test_a_pipe_that_nobody_reads(self):
        server = self.serve()
        self.assertEqual(server.stop(SECONDS), 0)
        read_end, write_end = os.pipe()
        process = subprocess.Popen([str(BINARY), "serve", str(MODEL), *FLAGS, "--host", "127.0.0.1", "--port", str(server.port)], stderr=write_end, env={**os.environ, "QUIRE_LOG_LEVEL": "debug"})
        os.close(write_end)
        server.process = process
        server.wait_ready(SECONDS)
        while not server.counter("quire:log_lines_lost"):
            self.burst(server)
        self.burst(server)
        lost = int(server.counter("quire:log_lines_lost"))
        # Requests go on while the pipe is read in the background; the first line that fits tells the losses.
        text = self.pool.submit(lambda: read_to_end(read_end))
        self.burst(server)
        told_lost = int(server.counter("quire:log_lines_lost"))
        self.assertEqual(server.stop(SECONDS), 0)
        told = re.findall(r"log: (\d+) lines? could not be written: (.*)", text.result(SECONDS))
        self.assertEqual([reason for _, reason in told], ["nobody reads standard error"] * len(told))
        self.assertEqual(sum(int(number) for number, _ in told), told_lost)
        self.assertGreaterEqual(told_lost, lost)


def read_to_end(descriptor: int) -> str:
    with open(descriptor, errors="replace") as pipe:
        return pipe.read()


def http_status(server: Server, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status


if __name__ == "__main__":
    unittest.main()
