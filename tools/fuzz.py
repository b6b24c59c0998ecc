#!/usr/bin/env python3
"""Runs the libFuzzer programs of build/fuzz/bin; tools/fuzz.sh builds them first.

Each target starts from its stored corpus and what earlier runs found (build/fuzz/work). A crash, a leak, an input that runs for more than
a minute or takes more than 2 GiB fails the target and stays in build/fuzz/failures. --keep puts the smallest set of inputs that reaches
everything found so far into the stored corpus, up to a size that a repository can carry."""
import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "fuzz"
BUILD = ROOT / "build" / "fuzz"
SYMBOLIZER = pathlib.Path("/usr/lib/llvm-14/bin/llvm-symbolizer")
INPUT_SECONDS, INPUT_MIB = 60, 2048
STORED_BYTES = 48 << 10  # of what --keep adds for one target
MERGE_SECONDS = 600
TARGET_LINE = re.compile(r'^FUZZ_TARGET\((\w+), (\w+), "([^"]+)", "([^"]+)", (\d+), (\d+)\)$', re.M)


class Target:
    def __init__(self, name: str, corpus: str, dictionary: str, max_bytes: int):
        self.name, self.stored, self.dictionary, self.max_bytes = name, TESTS / corpus, TESTS / dictionary, max_bytes
        self.program, self.found = BUILD / "bin" / f"fuzz_{name}", BUILD / "work" / name

    def environment(self, scratch: str) -> dict[str, str]:
        out = {**os.environ, "TMPDIR": scratch, "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
        if SYMBOLIZER.exists():
            out["ASAN_SYMBOLIZER_PATH"] = str(SYMBOLIZER)
        return out


def targets() -> list[Target]:
    found = [Target(m[1], m[3], m[4], int(m[5])) for m in TARGET_LINE.finditer((TESTS / "targets.def").read_text())]
    if not found:
        sys.exit("tests/fuzz/targets.def: no target found")
    return found


def folder_size(folder: pathlib.Path) -> tuple[int, int]:
    sizes = [p.stat().st_size for p in folder.iterdir()]
    return len(sizes), sum(sizes)


class Outcome:
    """What one program said at its end."""

    def __init__(self, target: Target, status: int, log: str, seconds: float):
        self.target, self.passed, self.seconds = target, status == 0, seconds
        executed = re.search(r"stat::number_of_executed_units:\s+(\d+)", log)
        self.executed = int(executed[1]) if executed else 0
        peak = re.search(r"stat::peak_rss_mb:\s+(\d+)", log)
        self.peak_mib = int(peak[1]) if peak else 0
        progress = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)/(\d+)(b|Kb|Mb)", log)
        self.coverage, self.features, self.inputs = map(int, progress[-1][:3]) if progress else (0, 0, 0)
        reason = re.search(r"^(?:SUMMARY|==\d+==\s*ERROR): (.*)$", log, re.M)
        self.reason = reason[1] if reason else f"status {status}"

    def line(self) -> str:
        stored, size = folder_size(self.target.stored)
        verdict = "ok" if self.passed else "FAILED: " + self.reason
        return (f"{self.target.name:<12} {self.seconds:6.0f} s {self.executed:>10} executions {self.coverage:>7} branches {self.features:>7} features "
                f"{self.inputs:>5} inputs ({stored} stored, {size} bytes) {self.peak_mib:>5} MiB  {verdict}")


def fuzz(target: Target, seconds: int) -> Outcome:
    target.found.mkdir(parents=True, exist_ok=True)
    failures = BUILD / "failures"
    failures.mkdir(parents=True, exist_ok=True)
    log = BUILD / f"{target.name}.log"
    command = [str(target.program), str(target.found), str(target.stored), f"-dict={target.dictionary}", f"-max_len={target.max_bytes}", f"-max_total_time={seconds}",
               f"-timeout={INPUT_SECONDS}", f"-rss_limit_mb={INPUT_MIB}", f"-artifact_prefix={failures}/{target.name}-", "-print_final_stats=1"]
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, open(log, "wb") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=target.environment(scratch), timeout=seconds + 600)
    return Outcome(target, done.returncode, log.read_text(errors="replace"), time.monotonic() - start)


def keep(target: Target) -> str:
    """The inputs of a cover of everything found, smallest first, added to the stored ones (whose own names stay)."""
    with tempfile.TemporaryDirectory() as scratch:
        cover, stored = pathlib.Path(scratch) / "cover", {hashlib.sha1(p.read_bytes()).hexdigest() for p in target.stored.iterdir()}
        cover.mkdir()
        for path in target.stored.iterdir():
            shutil.copy(path, cover)
        command = [str(target.program), "-set_cover_merge=1", f"-max_len={target.max_bytes}", f"-timeout={INPUT_SECONDS}", str(cover), str(target.found)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=target.environment(scratch), timeout=MERGE_SECONDS)
        added, room = 0, STORED_BYTES
        for path in sorted(cover.iterdir(), key=lambda p: (p.stat().st_size, p.name)):
            raw = path.read_bytes()
            digest = hashlib.sha1(raw).hexdigest()
            if digest in stored or len(raw) > room or (target.stored / path.name).exists():
                continue
            (target.stored / digest[:12]).write_bytes(raw)
            added, room = added + 1, room - len(raw)
    return f"{target.name}: {added} inputs, {STORED_BYTES - room} bytes added"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    parser.add_argument("--only", help="comma-separated names of the targets to run")
    parser.add_argument("--keep", action="store_true", help="store what was found, here and in earlier runs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="targets at a time (all cores)")
    parser.add_argument("--programs", action="store_true", help="print the names of the programs and end")
    arguments = parser.parse_args()
    chosen = targets()
    if arguments.programs:
        print("\n".join(f"fuzz_{t.name}" for t in chosen))
        return 0
    if arguments.only:
        names = arguments.only.split(",")
        if unknown := set(names) - {t.name for t in chosen}:
            parser.error(f"--only: no target '{unknown.pop()}'; allowed: {', '.join(t.name for t in chosen)}")
        chosen = [t for t in chosen if t.name in names]
    print(f"==> Fuzzing {', '.join(t.name for t in chosen)}: {arguments.seconds} s each, {arguments.jobs} at a time; logs and failures in build/fuzz", flush=True)
    outcomes = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for outcome in pool.map(lambda t: fuzz(t, arguments.seconds), chosen):
            outcomes.append(outcome)
            print(outcome.line(), flush=True)
    if arguments.keep:
        for target in chosen:
            print(keep(target), flush=True)
    failed = sum(not o.passed for o in outcomes)
    print(f"{len(outcomes) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
