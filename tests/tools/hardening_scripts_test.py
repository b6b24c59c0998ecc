"""The judges of eval/load.py, eval/soak.py and tools/fuzz.py: each must be able to say no."""
import json
import pathlib
import random
import sys
import tempfile
import threading
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "eval"), str(ROOT / "tools")]
import fuzz  # noqa: E402
import load  # noqa: E402
import soak  # noqa: E402
import soak_clients  # noqa: E402

ERROR = json.dumps({"error": {"message": "why", "type": "t", "param": None, "code": 503}})


class Answers(unittest.TestCase):
    def test_whole_answers_errors_and_pieces(self):
        for status, text, wanted in ((200, "{}", load.WHOLE), (503, ERROR, load.ERROR), (500, ERROR, load.CUT), (503, "{}", load.CUT), (200, '{"choices":', load.CUT), (200, "", load.CUT)):
            self.assertEqual(load.judge_json(status, text).outcome, wanted, (status, text))

    def test_streams(self):
        done = "data: [DONE]"
        for lines, wanted in (([done], load.WHOLE), (['data: {"choices":[]}', done], load.WHOLE), (["data: " + ERROR, done], load.ERROR), (['data: {"choices":[]}'], load.CUT), ([], load.CUT),
                              (["data: {", done], load.CUT), (["data: 5", done], load.CUT), (["data: []", done], load.CUT), (['data: {"error":"x"}', done], load.CUT), (['data: {"error":{}}', done], load.CUT), ([": keep-alive", done], load.WHOLE), ([done, 'data: {"choices":[]}'], load.CUT)):
            self.assertEqual(load.judge_stream(200, lines).outcome, wanted, lines)
        self.assertEqual(load.judge_stream(200, ["data: " + ERROR, done]).detail, "why")

    def test_nobody_listens(self):
        from server_process import free_port
        self.assertEqual(load.ask(free_port(), "/v1/completions", {}, 5).outcome, load.NONE)


class Soak(unittest.TestCase):
    def test_growth_is_that_of_the_line(self):
        self.assertEqual(soak.growth_mib([(float(t), 50.0) for t in range(100)]), 0)
        self.assertAlmostEqual(soak.growth_mib([(float(t), 50.0 + 0.1 * t) for t in range(101)]), 10)
        noisy = [(float(t), 50.0 + (3.0 if t % 7 == 0 else 0.0)) for t in range(300)]
        self.assertLess(abs(soak.growth_mib(noisy)), 0.2, "peaks are no growth")
        self.assertEqual(soak.growth_mib([(1.0, 2.0)]), 0)

    def test_a_leak_or_a_wrong_answer_fails(self):
        class Watch:
            wrong, canaries, busy, slowest, health = [], 5, 0, 0.1, [200]
            samples = [(float(t), 50.0) for t in range(100)]

        class Clients:
            counts = {kind: {"whole": 1} for kind in soak_clients.KINDS}
            wrong = {kind: [] for kind in soak_clients.KINDS}
            threads, ended_early = [], []

        class Arguments:
            minutes, preset = 10, "release"

        def failing() -> list[str]:
            return [name for name, passed, _ in soak.judge(Watch, Clients, Arguments) if not passed]
        self.assertEqual(failing(), [])
        Watch.samples = [(float(t), 50.0 + 0.1 * t) for t in range(100)]
        self.assertEqual(failing(), ["memory"])
        Clients.ended_early = ["asks"]
        self.assertEqual(failing(), ["memory", "clients"])
        Clients.ended_early = []
        Arguments.preset = "asan"
        self.assertEqual(failing(), [])
        Watch.wrong, Watch.health, Clients.wrong = ["canary: x"], [200, 503], {**Clients.wrong, "asks": ["wrong: cut"]}
        self.assertEqual(failing(), ["canary", "health", "asks"])
        Watch.canaries, Watch.wrong, Watch.health, Clients.counts = 0, [], [], {kind: {} for kind in soak_clients.KINDS}
        self.assertEqual(failing(), ["canary", "health", *soak_clients.KINDS])

    def test_a_client_that_cannot_go_on_is_told(self):
        over = threading.Event()
        clients = soak_clients.Clients(0, 1, over)

        def act(_port, _rng):
            over.set()
            raise ValueError("no number")
        with unittest.mock.patch.dict(soak_clients.KINDS, {"asks": (act, 1)}):
            clients.loop("asks", random.Random(1))
        self.assertEqual(clients.wrong["asks"], ["wrong: ValueError: no number"])
        over.clear()
        with unittest.mock.patch.object(clients, "loop", lambda kind, rng: None):
            clients.run("asks", random.Random(1))
        self.assertEqual(clients.ended_early, ["asks"])

    def test_requests_are_of_every_kind_and_repeat(self):
        made = [soak_clients.request(random.Random(i), 60) for i in range(400)]
        self.assertEqual(made, [soak_clients.request(random.Random(i), 60) for i in range(400)])
        self.assertEqual({path for path, _ in made}, {"/v1/completions", "/v1/chat/completions"})
        self.assertEqual({body["stream"] for _, body in made}, {True, False})


class Fuzz(unittest.TestCase):
    def test_every_line_of_the_list_is_read(self):
        lines = [line for line in (fuzz.TESTS / "targets.def").read_text().splitlines() if line.startswith("FUZZ_TARGET")]
        targets = fuzz.targets()
        self.assertEqual(len(targets), len(lines))
        for target in targets:
            self.assertTrue((fuzz.TESTS / f"{target.name}_fuzz.cc").exists(), target.name)
            self.assertTrue(target.dictionary.exists() and any(target.stored.iterdir()), target.name)
            for path in target.stored.iterdir():
                self.assertLessEqual(path.stat().st_size, target.max_bytes, path)

    def test_a_program_that_failed_is_told(self):
        target = fuzz.targets()[0]
        log = "#7\tREDUCE cov: 12 ft: 34 corp: 5/67b\nstat::number_of_executed_units: 89\nstat::peak_rss_mb: 10\n"
        good = fuzz.Outcome(target, 0, log, 1.0)
        self.assertTrue(good.passed)
        self.assertEqual((good.executed, good.coverage, good.features, good.inputs, good.peak_mib), (89, 12, 34, 5, 10))
        bad = fuzz.Outcome(target, 77, log + "SUMMARY: libFuzzer: deadly signal\n", 1.0)
        self.assertIn("FAILED: libFuzzer: deadly signal", bad.line())
        self.assertEqual(fuzz.Outcome(target, 1, "", 1.0).executed, 0)

    def test_a_program_that_is_not_there_fails(self):
        target = fuzz.targets()[0]
        with tempfile.TemporaryDirectory() as folder:
            target.program, target.found = pathlib.Path(folder) / "none", pathlib.Path(folder) / "found"
            with self.assertRaises(OSError):
                fuzz.fuzz(target, 1)


if __name__ == "__main__":
    unittest.main()
