"""FP8 KV caches as processes: mistakes with their scales are refused by name, what is served all the same is said in the log, in /v1/models and in a metric, and `quire eval`
measures a checkpoint's own scales.

FAULTY_BINARY is the program with mistakes to switch on (faulty_main.cc), PROGRAM_BINARY the program."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "eval"))
import twins  # noqa: E402
from server_process import Server  # noqa: E402

FAULTY, QUIRE = pathlib.Path(os.environ["FAULTY_BINARY"]), pathlib.Path(os.environ["PROGRAM_BINARY"])
MODEL = ROOT / "models" / "gsm-tiny"
LAYERS = 6
# Of gsm-tiny's size, no powers of two, another one in every layer and part.
KEYS, VALUES = [0.05 + 0.003 * n for n in range(LAYERS)], [0.011 + 0.002 * n for n in range(LAYERS)]
# faulty_main.cc knows these sizes.
FLAGS = ["--max-num-seqs", "16", "--max-model-len", "2048", "--block-size", "16", "--num-gpu-blocks-override", "150", "--max-num-batched-tokens", "64", "--num-threads", "1",
         "--kv-cache-dtype", "fp8"]
SECONDS = 300


@contextlib.contextmanager
def environment(**variables: str):
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def quire(binary: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess:
    """A command that must end by itself."""
    return subprocess.run([str(binary), *arguments], capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL)


class Checkpoints(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.scaled = twins.with_scales(MODEL, cls.folder / "scaled", KEYS, VALUES)

    @contextlib.contextmanager
    def served(self, model: pathlib.Path, *flags: str):
        with Server(QUIRE, model, self.folder / "log", [*FLAGS, *flags]) as server:
            server.wait_ready(SECONDS)
            yield server
            self.assertEqual(server.stop(), 0)

    def card(self, server: Server) -> dict:
        [model] = json.loads(server.get("/v1/models"))["data"]
        return model


class Mistakes(Checkpoints):
    def refusal(self, fault: str, flavor: str) -> str:
        with environment(SWITCHED_ON_FAULT=fault, QUIRE_FP8_FLAVOR=flavor):
            done = quire(FAULTY, "serve", str(self.scaled), *FLAGS, "--port", "0")
        self.assertEqual(done.returncode, 1, done.stderr)
        [error] = [line for line in done.stderr.splitlines() if ": error: " in line]
        return error

    def test_each_is_refused_with_layer_and_cause(self):
        for fault, cause in (("KV scale dropped", "as if the scales of K and V were dropped (1 instead of "), ("KV scale doubled", "as if the scales of K and V were doubled"),
                             ("KV scale of another layer", "as if the scales of K and V were those of layer "), ("K and V scales swapped", "as if the scales of K and V were swapped")):
            for flavor in ("ocp", "fnuz"):
                with self.subTest(fault=fault, flavor=flavor):
                    error = self.refusal(fault, flavor)
                    self.assertRegex(error, r"the self-check failed: attention of decode rows in [^:]*: layer \d, row ")
                    self.assertIn(cause, error)

    def test_fnuz_bytes_read_as_ocp(self):
        self.assertIn("as if the scales of K and V were doubled: what FNUZ bytes read as OCP give", self.refusal("FNUZ bytes read as OCP", "fnuz"))

    def test_doctor_says_it_too(self):
        with environment(SWITCHED_ON_FAULT="KV scale doubled"):
            done = quire(FAULTY, "doctor", str(self.scaled), *FLAGS, "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        causes = {v["cause"] for v in json.loads(done.stdout)["verdicts"] if not v["passed"] and v["check"] == "attention" and v["row_class"] != "padded"}
        self.assertEqual(causes, {"as if the scales of K and V were doubled"})

    def test_right_kernels(self):
        with environment(SWITCHED_ON_FAULT=""):
            done = quire(FAULTY, "doctor", str(self.scaled), *FLAGS)
        self.assertEqual(done.returncode, 0, done.stdout)


class Said(Checkpoints):
    def test_a_cache_without_scales(self):
        with self.served(MODEL) as server:
            [warning] = self.card(server)["warnings"]
            self.assertIn("FP8 KV cache (fp8_e4m3 (OCP)) without scales", warning)
            self.assertIn(warning, server.log.read_text())
            self.assertEqual(server.counter("quire:kv_scales_default"), 1)
            self.assertEqual(self.card(server)["relaxed"], [])

    def test_the_checkpoints_scales_are_no_warning(self):
        with self.served(self.scaled) as server:
            self.assertEqual(self.card(server)["warnings"], [])
            self.assertEqual(server.counter("quire:kv_scales_default"), 0)

    def test_relaxed_kv_scales_over_a_cache_that_cannot_hold_the_numbers(self):
        hot = twins.hot_twin(MODEL, self.folder / "hot")
        refused = quire(QUIRE, "serve", str(hot), *FLAGS, "--port", "0")
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertRegex(refused.stderr, r"error: .*the FP8 KV cache loses too much of this model: layer \d: ")
        with self.served(hot, "--relaxed", "kv-scales") as server:
            card = self.card(server)
            self.assertEqual(card["relaxed"], ["kv-scales"])
            self.assertEqual(len(card["warnings"]), 2, card)
            self.assertRegex(card["warnings"][0], r"^--relaxed kv-scales: answers may be wrong: layer \d: ")
            self.assertIn(card["warnings"][0], server.log.read_text())
            self.assertEqual(server.counter_of("quire:relaxed_checks", {"check": "kv-scales"}), 1)

    def test_relaxed_kv_scales_over_scales_of_some_layers(self):
        partly = twins.with_scales(MODEL, self.folder / "partly", KEYS[:-1], VALUES[:-1])
        with self.served(partly, "--relaxed", "kv-scales") as server:
            [warning] = self.card(server)["warnings"]
            self.assertTrue(warning.startswith("--relaxed kv-scales: layer 5 has no KV scale"), warning)
            self.assertIn(warning, server.log.read_text())
            self.assertEqual(server.counter_of("quire:relaxed_checks", {"check": "kv-scales"}), 1)

    def test_relaxed_unused_tensors(self):
        def add(tensors: twins.Tensors) -> None:
            tensors.tensors["model.adapter.weight"] = ("F32", [1], b"\0\0\x80\x3f")
        extra = twins.copy_with(MODEL, self.folder / "extra", add)
        with self.served(extra, "--relaxed", "unused-tensors", "self-check", "--kv-cache-dtype", "auto") as server:
            self.assertEqual(self.card(server)["relaxed"], ["unused-tensors", "self-check"])
            [warning] = self.card(server)["warnings"]
            self.assertEqual(warning, "--relaxed unused-tensors: 1 tensor of the checkpoint is not used: \"model.adapter.weight\"")
            log = server.log.read_text()
            for line in ("RELAXED    unused-tensors", "RELAXED    self-check", "model.adapter.weight"):
                self.assertIn(line, log)
            self.assertEqual(server.counter_of("quire:relaxed_checks", {"check": "unused-tensors"}), 1)
            self.assertEqual(server.counter_of("quire:relaxed_checks", {"check": "self-check"}), 0)


class Explain(Checkpoints):
    def source(self, model: pathlib.Path, *flags: str) -> dict:
        done = quire(QUIRE, "explain", str(model), "--scales", "--kv-cache-dtype", "fp8", "--json", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_before_and_after_a_checkpoint_gets_its_scales(self):
        before, after, fnuz = self.source(MODEL), self.source(self.scaled), self.source(self.scaled, "--device", "gfx942")
        self.assertEqual((before["source"], after["source"], fnuz["source"]), ("default", "checkpoint", "checkpoint"))
        self.assertEqual((len(before["warnings"]), after["warnings"], fnuz["warnings"]), (1, [], []))
        for document, factor in ((after, 1), (fnuz, 2)):
            keys = [entry["in_use"] for entry in document["scales"] if entry["kind"] == "k"]
            self.assertEqual(len(keys), LAYERS)
            for scale, raw in zip(keys, KEYS):
                self.assertAlmostEqual(scale, factor * raw, 6)


class Eval(Checkpoints):
    TEXT = ROOT / "eval" / "gsm_tiny_fewshot.jsonl"
    COMMAND = ["--text", str(TEXT), "--max-model-len", "129", "--max-windows", "2"]

    def test_the_checkpoints_own_scales_are_measured(self):
        plot = self.folder / "plot.svg"
        done = quire(QUIRE, "eval", str(self.scaled), *FLAGS, *self.COMMAND, "--json", "--plot", str(plot))
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        self.assertIn("keys and values of 6 of 6 layers from the checkpoint (rule 1)", done.stderr)
        self.assertEqual(document["result"]["window"], 128)
        self.assertLess(abs(document["perplexity_ratio"] - 1), 0.05)
        gate = document["kv_gate"]
        self.assertTrue(gate["passed"])
        for layer in gate["layers"]:
            self.assertLess(layer["attention_error"], 0.06)
        texts = [element.text for element in xml.etree.ElementTree.parse(plot).iter("{http://www.w3.org/2000/svg}text")]
        for text in ("layer 0", "layer 5", "answer 1", "attention's output, relative error, %", "tokens of greedy answers before they part"):
            self.assertIn(text, texts)

    def test_scales_that_do_not_fit_end_with_1(self):
        tight = twins.with_scales(MODEL, self.folder / "tight", [0.0005] * LAYERS, VALUES)
        done = quire(QUIRE, "eval", str(tight), *FLAGS, *self.COMMAND, "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        gate = json.loads(done.stdout)["kv_gate"]
        self.assertFalse(gate["passed"])
        self.assertGreater(gate["layers"][0]["keys"]["saturated"], 0.01)
        self.assertGreater(gate["layers"][0]["keys"]["largest"], 0.0005 * 448)

    def test_a_short_text_is_told_what_is_needed(self):
        short = self.folder / "short.txt"
        short.write_text("Question: 1 + 1?")
        done = quire(QUIRE, "eval", str(self.scaled), *FLAGS, "--text", str(short))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, r"error: --text .*short.txt: the text has \d+ tokens, and one window has 512: at least 512 tokens are needed")
        self.assertNotIn("loading weights", done.stderr)

    def test_a_chart_needs_an_fp8_cache_and_a_place(self):
        done = quire(QUIRE, "eval", str(MODEL), *self.COMMAND, "--plot", str(self.folder / "none.svg"))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--plot: a chart shows what an FP8 KV cache loses, and this one is bfloat16; --kv-cache-dtype fp8 makes it one", done.stderr)
        done = quire(QUIRE, "eval", str(self.scaled), *FLAGS, *self.COMMAND, "--plot", str(self.folder / "no" / "such" / "folder.svg"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("cannot be written", done.stderr)


if __name__ == "__main__":
    unittest.main()
