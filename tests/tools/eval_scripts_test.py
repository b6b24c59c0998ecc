"""The evaluation's own arithmetic: rows of the log-likelihood task, and the comparison of two runs' answers."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "eval"))
import results  # noqa: E402


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


class Results(unittest.TestCase):
    """docs/RESULTS.md and what it was made of."""

    def setUp(self):
        self.raw = json.loads((ROOT / "docs" / "RESULTS.json").read_text())

    def test_page_is_what_the_figures_give(self):
        self.assertEqual((ROOT / "docs" / "RESULTS.md").read_text(), results.render(self.raw),
                         "written by hand, or by another generator: python3 eval/results.py > docs/RESULTS.md")

    def test_a_changed_figure_changes_the_page(self):
        page = results.render(self.raw)
        for place, key, value in ((self.raw["runs"][0], "score", 0.5), (self.raw["runs"][-1], "same_answers", False), (self.raw["checks"][0], "passed", False),
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
        self.assertEqual([c["name"] for c in self.raw["checks"] if not c["passed"]], [])


if __name__ == "__main__":
    unittest.main()
