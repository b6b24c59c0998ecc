"""The evaluation's own arithmetic: rows of the log-likelihood task, the comparison of two runs' answers, and twins of a checkpoint."""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "eval"))
import kv_caches  # noqa: E402
import results  # noqa: E402
import twins  # noqa: E402


class MakeLl(unittest.TestCase):
    def test_rows(self):
        source = ROOT / "eval" / "gsm_tiny_test.jsonl"
        with tempfile.TemporaryDirectory() as folder:
            out = [pathlib.Path(folder) / name for name in ("a.jsonl", "b.jsonl")]
            for path in out:
                subprocess.run([sys.executable, str(ROOT / "eval" / "make_ll.py"), str(source), str(path)], check=True)
            self.assertEqual(out[0].read_bytes(), out[1].read_bytes())
            rows = [json.loads(line) for line in out[0].read_text().splitlines()]
        problems = [json.loads(line) for line in source.read_text().splitlines()]
        self.assertEqual(len(rows), len(problems))
        for row, problem in zip(rows, problems):
            right, wrong = row["choices"][row["gold"]], row["choices"][1 - row["gold"]]
            self.assertEqual(f"{row['steps']} {right}", problem["answer"])
            self.assertEqual(len(right), len(wrong))
            self.assertEqual(sum(a != b for a, b in zip(right, wrong)), 1)
            self.assertEqual(str(int(wrong)), wrong)
        self.assertEqual(sum(row["gold"] for row in rows), len(rows) // 2)


class CompareSamples(unittest.TestCase):
    def compare(self, first: list[dict], second: list[dict]) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as folder:
            for name, rows in (("a", first), ("b", second)):
                path = pathlib.Path(folder) / name / "model"
                path.mkdir(parents=True)
                (path / "samples_gsm_tiny_2026.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
            done = subprocess.run([sys.executable, str(ROOT / "eval" / "compare_samples.py"), f"{folder}/a", f"{folder}/b"],
                                  capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr

    def row(self, doc_id: int, answer: str) -> dict:
        return {"doc_id": doc_id, "filter": "strict-match", "resps": [[answer]]}

    def test_same(self):
        self.assertEqual(self.compare([self.row(0, "1"), self.row(1, "2")], [self.row(1, "2"), self.row(0, "1")])[0], 0)

    def test_different_answer(self):
        status, out = self.compare([self.row(0, "1")], [self.row(0, "2")])
        self.assertEqual(status, 1)
        self.assertIn("doc 0", out)

    def test_missing_row_and_empty_run(self):
        self.assertEqual(self.compare([self.row(0, "1"), self.row(1, "2")], [self.row(0, "1")])[0], 1)
        self.assertNotEqual(self.compare([], [])[0], 0)


class Twins(unittest.TestCase):
    MODEL = ROOT / "models" / "gsm-tiny"

    def bfloat16(self, data: bytes) -> list[float]:
        return [struct.unpack("<f", struct.pack("<I", bits << 16))[0] for bits, in struct.iter_unpack("<H", data)]

    def test_scales_are_added_and_nothing_else(self):
        with tempfile.TemporaryDirectory() as folder:
            out = twins.with_scales(self.MODEL, pathlib.Path(folder) / "out", [0.5, 0.25], [2.0, 3.0])
            before, after = twins.Tensors(self.MODEL / twins.FILE).tensors, twins.Tensors(out / twins.FILE).tensors
            self.assertEqual((out / "config.json").read_bytes(), (self.MODEL / "config.json").read_bytes())
        added = {name: after.pop(name) for name in after.keys() - before.keys()}
        self.assertEqual(after, before)
        self.assertEqual(added, {f"model.layers.{layer}.self_attn.attn.{part}_scale": ("F32", [], struct.pack("<f", value))
                                 for layer, part, value in ((0, "k", 0.5), (1, "k", 0.25), (0, "v", 2.0), (1, "v", 3.0))})

    def test_powers_of_two(self):
        numbers = [1.0, -1.5, 0.0, -0.0, 3.0e-38, 1.0e-3]
        data = b"".join(struct.pack("<H", struct.unpack("<I", struct.pack("<f", x))[0] >> 16) for x in numbers)
        exact = self.bfloat16(data)
        self.assertEqual(self.bfloat16(twins.times_power(data, 9, "w")), [x * 512 for x in exact])
        small = self.bfloat16(twins.times_power(data, -11, "w"))
        self.assertEqual(small, [exact[0] / 2048, exact[1] / 2048, 0.0, -0.0, 0.0, exact[5] / 2048], "a subnormal result is zero")
        with self.assertRaisesRegex(ValueError, r"w: a weight times 2\*\*200"):
            twins.times_power(data, 200, "w")

    def test_the_hot_twin_cancels_and_differs_between_layers(self):
        with tempfile.TemporaryDirectory() as folder:
            scaled = twins.with_scales(self.MODEL, pathlib.Path(folder) / "scaled", [0.5] * 6, [0.25] * 6)
            out = twins.hot_twin(scaled, pathlib.Path(folder) / "hot")
            before, after = twins.Tensors(scaled / twins.FILE).tensors, twins.Tensors(out / twins.FILE).tensors
        for name in before:
            if ".self_attn." not in name:
                self.assertEqual(before[name], after[name], name)
        pairs = set()
        for layer in range(6):
            def ratio(tensor: str, layer: int = layer) -> float:
                name = f"model.layers.{layer}.self_attn.{tensor}"
                [quotient] = {a / b for a, b in zip(self.bfloat16(after[name][2][:512]), self.bfloat16(before[name][2][:512])) if a != 0}
                return quotient
            keys, values = ratio("k_proj.weight"), ratio("v_proj.weight")
            self.assertEqual((ratio("q_proj.weight") * keys, ratio("o_proj.weight") * values), (1, 1))
            for part, factor, scale in (("k", keys, 0.5), ("v", values, 0.25)):
                self.assertEqual(struct.unpack("<f", after[twins.scale_name(layer, part)][2])[0], scale * factor)
            self.assertNotEqual(keys, values)
            pairs.add((keys, values))
        self.assertEqual(len(pairs), 6, "no two layers alike")


class KvCaches(unittest.TestCase):
    def test_every_cache_and_every_mode_of_two(self):
        whole, quick = kv_caches.combinations(False), kv_caches.combinations(True)
        for cache in (kv_caches.BFLOAT16, kv_caches.E4M3):
            self.assertEqual({(b, m) for b, m, c in whole if c is cache}, {(b, m) for b in kv_caches.BACKENDS for m in kv_caches.GRAPH_MODES})
        self.assertEqual({c.label for _, _, c in whole}, {"bfloat16", "e4m3, calibrated", "e4m3, without scales", "e5m2", "e4m3 FNUZ, calibrated"})
        self.assertLess(set(quick), set(whole))
        names = [kv_caches.run_name(*combination) for combination in whole]
        self.assertEqual(len(set(names)), len(names))
        self.assertEqual(names[0], "cpu_unified_none")

    def test_least_scores(self):
        class Run:
            scores = {"completions": 0.995}
        self.assertEqual(kv_caches.least_score(Run, kv_caches.BFLOAT16), 0.99)
        self.assertAlmostEqual(kv_caches.least_score(Run, kv_caches.E4M3), 0.975)
        self.assertAlmostEqual(kv_caches.least_score(Run, kv_caches.FNUZ), 0.975)
        self.assertIsNone(kv_caches.least_score(Run, kv_caches.OTHERS[0]), "measured, not judged")


class Results(unittest.TestCase):
    """docs/RESULTS.md and what it was made of."""

    def setUp(self):
        self.raw = json.loads((ROOT / "docs" / "RESULTS.json").read_text())

    def test_page_is_what_the_figures_give(self):
        self.assertEqual((ROOT / "docs" / "RESULTS.md").read_text(), results.render(self.raw),
                         "written by hand, or by another generator: python3 eval/results.py > docs/RESULTS.md")

    def test_a_changed_figure_changes_the_page(self):
        page = results.render(self.raw)
        compared = [run for run in self.raw["runs"] if "same_answers" in run]
        for place, key, value in ((self.raw["runs"][0], "score", 0.5), (compared[-1], "same_answers", False), (self.raw["checks"][0], "passed", False),
                                  (self.raw["program"], "commit", "0"), (self.raw["machine"], "cores", 0)):
            before = place[key]
            place[key] = value
            self.assertNotEqual(results.render(self.raw), page, key)
            place[key] = before

    def test_a_whole_run_was_recorded(self):
        modes = ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")
        recorded = {(run["attention"], run["graph_mode"]): run for run in self.raw["runs"] if run["kv_cache"] == "bfloat16"}
        self.assertEqual(set(recorded), {(row, mode) for row in ("CPU_UNIFIED", "CPU_SPLIT") for mode in modes})
        for run in recorded.values():
            self.assertGreaterEqual(run["score"], 0.99, run["name"])
            self.assertEqual(run["problems"], 400, run["name"])
            self.assertTrue(run["same_answers"], run["name"])
        self.assertEqual(recorded["CPU_SPLIT", "FULL"]["runs_as"], "FULL_AND_PIECEWISE")
        calibrated = [run for run in self.raw["runs"] if run["kv_cache"] == kv_caches.E4M3.label]
        self.assertEqual({(run["attention"], run["graph_mode"]) for run in calibrated}, set(recorded))
        self.assertTrue(all(run["score"] >= 0.98 and run["problems"] == 400 and run.get("same_answers", True) for run in calibrated))
        self.assertLessEqual({cache.label for cache in kv_caches.OTHERS}, {run["kv_cache"] for run in self.raw["runs"]})
        names = {check["name"] for check in self.raw["checks"]}
        self.assertLessEqual({"hot_refused", "hot_relaxed", "hot_e4m3_same_answers", "hot_fnuz_same_answers", "thread_20295_fp8", "thread_20295_quark"}, names)
        self.assertEqual([c["name"] for c in self.raw["checks"] if not c["passed"]], [])


if __name__ == "__main__":
    unittest.main()
