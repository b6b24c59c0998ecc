"""serve, run and doctor as processes when the self-check fails: exit status, standard error, and what `--relaxed self-check` says where.

FAULTY_BINARY is the program with mistakes to switch on (faulty_main.cc)."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "eval"))
from server_process import Server  # noqa: E402

BINARY = pathlib.Path(os.environ["FAULTY_BINARY"])
MODEL = ROOT / "models" / "gsm-tiny"
# faulty_main.cc knows these sizes.
FLAGS = ["--max-num-seqs", "16", "--max-model-len", "2048", "--block-size", "16", "--num-gpu-blocks-override", "150", "--max-num-batched-tokens", "64", "--num-threads", "1"]
SPLIT = [*FLAGS, "--attention-backend", "CPU_SPLIT"]
SECONDS = 300


def environment(fault: str) -> dict:
    return {**os.environ, "SWITCHED_ON_FAULT": fault}


def quire(fault: str, command: str, *flags: str) -> subprocess.CompletedProcess:
    """A command that must end by itself."""
    return subprocess.run([str(BINARY), command, str(MODEL), *flags], capture_output=True, text=True, timeout=SECONDS, env=environment(fault), stdin=subprocess.DEVNULL)


def errors(done: subprocess.CompletedProcess) -> list[str]:
    return [line for line in done.stderr.splitlines() if ": error: " in line]


class Refused(unittest.TestCase):
    def test_serve_names_check_rows_batch_layer_and_remedy(self):
        done = quire("lengths stale", "serve", *FLAGS, "--port", "0")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout, "")
        [error] = errors(done)
        self.assertTrue(error.startswith("quire serve: error: "), error)
        self.assertIn("the self-check failed: attention of decode rows in decode rows, FULL graph, replayed with other lengths and blocks: layer 0, row ", error)
        for remedy in ("`quire doctor`", "--attention-backend", "--enforce-eager", "--relaxed self-check"):
            self.assertIn(remedy, error)

    def test_serve_of_thread_25104(self):
        done = quire("full graphs forced open", "serve", *SPLIT, "--port", "0")
        self.assertEqual(done.returncode, 1, done.stderr)
        [error] = errors(done)
        self.assertIn("graph support of mixed (decode with extend and prefill) rows in mixed batches in FULL graphs: CPU_SPLIT supports UNIFORM_SINGLE_TOKEN_DECODE", error)
        self.assertIn("in the numbers: same bits as eager of prefill rows in prefill rows, FULL graph: after the attention of layer 0", error)

    def test_run_refuses_too(self):
        done = quire("V cells transposed", "run", *FLAGS, "--prompt", "Question: 1 + 1?")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout, "", "no answer from wrong kernels")
        [error] = errors(done)
        self.assertIn("quire run: error: the self-check failed: ", error)

    def test_doctor_prints_the_table_and_ends_with_1(self):
        done = quire("GQA group off by one", "doctor", *FLAGS)
        self.assertEqual(done.returncode, 1, done.stderr)
        failing = [line for line in done.stdout.splitlines() if line.startswith("FAIL ")]
        self.assertTrue(any("attention" in line and "decode" in line for line in failing), done.stdout)
        self.assertRegex(done.stdout.splitlines()[-1], rf"^\d+ checks over \d+ steps in .* s: {len(failing)} FAILED$")

    def test_doctor_json(self):
        done = quire("full graphs forced open", "doctor", *SPLIT, "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        document = json.loads(done.stdout)
        self.assertFalse(document["passed"])
        wrong = {(v["check"], v["batch"], v["row_class"], v["layer"]) for v in document["verdicts"] if not v["passed"]}
        for row_class in ("extend", "prefill"):
            self.assertIn(("same bits as eager", "mixed rows, FULL graph", row_class, 0), wrong)
        self.assertFalse([w for w in wrong if w[2] == "decode"])

    def test_right_kernels(self):
        done = quire("", "doctor", *FLAGS)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertTrue(done.stdout.splitlines()[-1].endswith(": all passed"), done.stdout)


class Relaxed(unittest.TestCase):
    def test_serves_and_says_so_everywhere(self):
        os.environ["SWITCHED_ON_FAULT"] = "full graphs forced open"
        try:
            with tempfile.TemporaryDirectory() as folder, Server(BINARY, MODEL, pathlib.Path(folder) / "log", [*SPLIT, "--relaxed", "self-check"]) as server:
                server.wait_ready(SECONDS)
                log = server.log.read_text()
                self.assertIn("RELAXED    self-check", log)
                self.assertRegex(log, r"warning --relaxed self-check: answers may be wrong: graph support of mixed ")
                [model] = json.loads(server.get("/v1/models"))["data"]
                self.assertEqual(model["relaxed"], ["self-check"])
                self.assertEqual(server.counter("quire:self_check_failed"), 1)
                # Decode rows are right even so, and a server that said it would serve does.
                self.assertEqual(server.post("/v1/completions", {"prompt": [5], "max_tokens": 4, "ignore_eos": True, "temperature": 0})["usage"]["completion_tokens"], 4)
                self.assertEqual(server.stop(), 0)
        finally:
            del os.environ["SWITCHED_ON_FAULT"]

    def test_relaxing_what_passes_changes_nothing(self):
        with tempfile.TemporaryDirectory() as folder, Server(BINARY, MODEL, pathlib.Path(folder) / "log", [*FLAGS, "--relaxed", "self-check"]) as server:
            server.wait_ready(SECONDS)
            self.assertNotIn("answers may be wrong", server.log.read_text())
            self.assertEqual(server.counter("quire:self_check_failed"), 0)
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
