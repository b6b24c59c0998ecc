#!/usr/bin/env python3
"""`quire quantize` as a process: killed in the middle of a write and gone on with, a full disk, a folder that is not empty, wrong command
lines, and what it says on both streams. QUANTIZE_BINARY names the program. Everything inside the files is tests/quantize."""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests" / "golden" / "fp8" / "source"
QUIRE = os.environ["QUANTIZE_BINARY"]


def run(*arguments, before=None):
    return subprocess.run([QUIRE, "quantize", *map(str, arguments)], capture_output=True, text=True, timeout=120, preexec_fn=before)


def contents(folder):
    return {p.name: p.read_bytes() for p in pathlib.Path(folder).iterdir()}


def file_limit(size):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


class Quantize(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = pathlib.Path(self.folder.name) / "out"

    def whole(self, *flags):
        other = pathlib.Path(self.folder.name) / "whole"
        done = run(SOURCE, "--output", other, *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return contents(other)

    def test_answers_on_standard_output_and_progress_on_standard_error(self):
        done = run(SOURCE, "--format", "fp8", "--output", self.out, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual((answer["format"], answer["kv"], answer["quantised"], answer["files"], answer["resumed"]), ("fp8", "tensor", 14, 1, False))
        self.assertEqual(answer["calibration"]["text"], "the built-in text")
        self.assertGreater(answer["calibration"]["tokens"], 100)
        self.assertIn("calibrated over", done.stderr)
        config = json.loads((self.out / "config.json").read_text())
        self.assertEqual(config["quantization_config"]["kv_cache_scheme"], "static")
        text = run(SOURCE, "--format", "fp8-dynamic", "--kv", "none", "--output", self.out, "--overwrite")
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertIn("14 matrices in FP8, KV scales none", text.stdout)
        self.assertNotIn("calibrat", text.stderr + text.stdout)

    def test_any_text_calibrates_however_short(self):
        for number, text in enumerate(["the", "wörds that the tokenizer does not know ☃"]):
            path = pathlib.Path(self.folder.name) / f"text{number}"
            path.write_text(text)
            done = run(SOURCE, "--format", "quark", "--output", self.out, "--calibration", path, "--json", "--overwrite")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["calibration"]["text"], str(path))
        for text in (b"", b"\xff\xfe not UTF-8"):
            path.write_bytes(text)
            done = run(SOURCE, "--format", "quark", "--output", self.out, "--calibration", path, "--overwrite")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--calibration", done.stderr.splitlines()[-1])
            # A text that cannot be used leaves nothing that stands in the way of one that can.
            fresh = pathlib.Path(self.folder.name) / "fresh"
            self.assertEqual(run(SOURCE, "--format", "quark", "--output", fresh, "--calibration", path).returncode, 2)
            self.assertFalse(fresh.exists())

    def test_the_source_stays_as_it_is(self):
        source = pathlib.Path(self.folder.name) / "source"
        shutil.copytree(SOURCE, source)
        (pathlib.Path(self.folder.name) / "link").symlink_to(source)
        for inside in (source / "sub", source / "sub" / "deeper", source.parent / "link" / "sub"):
            done = run(source, "--format", "fp8-dynamic", "--kv", "none", "--output", inside)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("inside MODEL's own folder", done.stderr)
        self.assertEqual(contents(source), contents(SOURCE))

    def test_a_text_that_is_not_needed_is_named(self):
        path = pathlib.Path(self.folder.name) / "text"
        path.write_text("the")
        done = run(SOURCE, "--format", "fp8-dynamic", "--kv", "none", "--output", self.out, "--calibration", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("not read", done.stderr)

    def test_the_same_twice(self):
        a = self.whole("--format", "compressed-tensors", "--kv", "head")
        done = run(SOURCE, "--format", "compressed-tensors", "--kv", "head", "--output", self.out, "--num-threads", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(contents(self.out), a)

    def test_stopped_in_the_middle_of_a_write_it_goes_on(self):
        for form in ("fp8", "fp8-block", "compressed-tensors"):
            flags = ("--format", form, "--max-shard-size", "30000")
            want = self.whole(*flags, "--overwrite")
            for size in (12000, 20000, 26000):
                done = run(SOURCE, "--output", self.out, "--overwrite", *flags, before=file_limit(size))
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertFalse((self.out / "config.json").exists())
                self.assertTrue((self.out / ".quire-quantize.journal").exists())
                done = run(SOURCE, "--output", self.out, *flags, "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(json.loads(done.stdout)["resumed"])
                self.assertNotIn("calibrated over", done.stderr)
                self.assertEqual(contents(self.out), want, f"{form} stopped at {size} bytes")

    def test_a_write_that_fails_is_named(self):
        flags = ("--format", "fp8", "--output", self.out)
        done = run(SOURCE, *flags, before=file_limit(20000))
        self.assertEqual(done.returncode, 1)
        self.assertIn("model.safetensors.partial: cannot write: File too large", done.stderr)
        self.assertIn("the same command goes on with it", done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(run(SOURCE, *flags).returncode, 0)
        self.assertEqual(contents(self.out), self.whole("--format", "fp8"))

    def test_a_full_disk_is_said_before_anything_is_written(self):
        small = pathlib.Path(self.folder.name) / "small"
        small.mkdir()
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], capture_output=True).returncode != 0:
            self.skipTest("no file system of its own can be mounted here")
        try:
            done = run(SOURCE, "--format", "fp8", "--output", small / "out")
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r"--output .*small/out: \d+ bytes are to be written, and the file system has \d+ left")
        finally:
            subprocess.run(["umount", small], check=True)

    def test_what_is_there_stays(self):
        self.assertEqual(run(SOURCE, "--format", "fp8", "--output", self.out).returncode, 0)
        before = contents(self.out)
        done = run(SOURCE, "--format", "quark", "--output", self.out)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--overwrite", done.stderr)
        self.assertEqual(contents(self.out), before)
        done = run(self.out, "--format", "fp8", "--output", pathlib.Path(self.folder.name) / "again")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("quantization_config", done.stderr)

    def test_wrong_command_lines(self):
        for arguments, words in [
            ((), "MODEL is missing"), ((SOURCE, "--output", self.out), "--format is missing"), ((SOURCE, "--format", "fp8"), "--output is missing"),
            ((SOURCE, "--format", "fp9", "--output", self.out), "fp8-dynamic"), ((SOURCE, "--format", "fp8", "--kv", "head", "--output", self.out), "--format compressed-tensors"),
            ((SOURCE, "--format", "fp8", "--output", self.out, "--port", "1"), "--port"), ((SOURCE, "--format", "fp8", "--output", self.out, "--calibration", "/nowhere"), "/nowhere"),
            (("/nowhere", "--format", "fp8", "--output", self.out), "/nowhere"),
        ]:
            done = run(*arguments)
            self.assertIn(done.returncode, (1, 2), arguments)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertFalse(self.out.exists(), arguments)


if __name__ == "__main__":
    unittest.main()
