"""serve as a process that is asked to stop: signals within a second of the first are one request, a later one ends it at once.

STOPPED_BINARY is the program."""
import json
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "eval"))
from server_process import Server  # noqa: E402

BINARY = pathlib.Path(os.environ["STOPPED_BINARY"])
MODEL = ROOT / "models" / "gsm-tiny"
FLAGS = ["--max-num-seqs", "16", "--kv-cache-memory-bytes", "64M", "--num-threads", "1"]
SECONDS = 250


class Stream(threading.Thread):
    """A streaming request that is being answered; `done`: it came to its end."""

    def __init__(self, server: Server, samples: int, tokens: int):
        super().__init__()
        body = {"prompt": "Question: 1 + 1?", "n": samples, "temperature": 1, "max_tokens": tokens, "ignore_eos": True, "stream": True}
        self.request = urllib.request.Request(server.url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        self.begun, self.done = threading.Event(), False
        self.start()

    def run(self):
        try:
            with urllib.request.urlopen(self.request, timeout=SECONDS) as answer:
                for line in answer:
                    self.begun.set()
                    self.done = self.done or line.strip() == b"data: [DONE]"
        except (OSError, urllib.error.URLError):
            pass
        self.begun.set()


class Stop(unittest.TestCase):
    def serve(self, *flags: str):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        server = Server(BINARY, MODEL, pathlib.Path(folder.name) / "log", [*FLAGS, *flags])
        self.addCleanup(server.kill)
        server.wait_ready(SECONDS)
        return server

    def test_two_signals_at_once_drain(self):
        server = self.serve("--shutdown-timeout", str(SECONDS))
        stream = Stream(server, 1, 400)
        self.assertTrue(stream.begun.wait(SECONDS))
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)  # taken by then: a second one that is still pending would be no second one
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(SECONDS), 0, server.log.read_text())
        stream.join(SECONDS)
        self.assertTrue(stream.done, "the stream that ran was finished")
        self.assertIn("stopped", server.log.read_text())

    def test_a_signal_a_second_later_leaves_at_once(self):
        server = self.serve("--shutdown-timeout", str(SECONDS))
        stream = Stream(server, 64, 1900)
        self.assertTrue(stream.begun.wait(SECONDS))
        server.process.send_signal(signal.SIGINT)
        time.sleep(1.3)
        self.assertIsNone(server.process.poll(), "still draining")
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(SECONDS), 1)
        stream.join(SECONDS)
        self.assertFalse(stream.done)
        self.assertIn("asked to stop again", server.log.read_text())


if __name__ == "__main__":
    unittest.main()
