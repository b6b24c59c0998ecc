"""End-to-end checks against the built server; eval/e2e.sh starts this inside build/venv. See --help."""
import argparse
import datetime
import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import kv_caches  # noqa: E402
import results  # noqa: E402
import threads  # noqa: E402
import web_driver  # noqa: E402
from server_checks import READY_SECONDS, plan_matches, stopped_cleanly  # noqa: E402
from server_process import Server, ServerError  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "models" / "gsm-tiny"
SCORE = kv_caches.SCORE
PROBLEMS = 400
STEP_SECONDS = 900  # a bound for hanging, not for speed
# 5-shot prompts are about 480 tokens, answers about 45: each sequence grows by three blocks of 16 beyond its prompt. These pools hold
# one sequence of --max-model-len and a few running ones, so that growth takes blocks from the newest again and again: about 200
# times in 400 problems (how often depends on when requests arrive).
TINY_POOLS = {"tiny_pool": ["--block-size", "16", "--max-model-len", "768", "--num-gpu-blocks-override", "48"],
              "tiny_pool_uncached": ["--block-size", "16", "--max-model-len", "1024", "--num-gpu-blocks-override", "64", "--no-enable-prefix-caching"]}
MANY_PREEMPTIONS = 150


def debian_12() -> bool:
    release = pathlib.Path("/etc/os-release")
    facts = dict(line.split("=", 1) for line in release.read_text().splitlines() if "=" in line) if release.exists() else {}
    return facts.get("ID") == "debian" and facts.get("VERSION_ID", "").strip('"') == "12"


class Run:
    def __init__(self, arguments: argparse.Namespace):
        self.binary = pathlib.Path(arguments.binary or ROOT / "build" / arguments.preset / "bin" / "quire")
        self.quick, self.sanitized = arguments.quick, arguments.preset in ("asan", "tsan")
        self.out = ROOT / "build" / "e2e" / arguments.preset
        self.limit = 60 if self.quick and self.sanitized else None
        self.preset = arguments.preset
        self.load_average = os.getloadavg()[0]
        self.rows: list[tuple[str, bool, str, float]] = []
        self.runs: list[dict] = []  # of lm_eval with one configuration each (results.py)
        self.scores: dict[str, float] = {}  # of lm_eval, by the run's name
        self.model, self.ready_seconds = MODEL, READY_SECONDS
        self.made: dict[str, pathlib.Path] = {}  # checkpoints
        self.standards: dict[str, str | None] = {}  # by KV cache: the run whose answers all others with that cache must repeat
        self.left_out: list[str] = []  # checks whose program is not there
        self.only = arguments.only.split(",") if arguments.only else None

    def server(self, name: str, flags: list[str] = (), model: pathlib.Path = MODEL, environment: dict[str, str] | None = None) -> Server:
        server = Server(self.binary, model, self.out / f"server-{name}.log", list(flags), environment)
        try:
            server.wait_ready(READY_SECONDS)
        except BaseException:
            server.kill()
            raise
        return server

    def check(self, name: str, action) -> bool:
        """Runs `action` -> (passed, detail); whatever it raises is a failure of that one check. False when it failed or was not asked for."""
        if self.only and name not in self.only:
            return False
        print(f"==> {name}", flush=True)
        start = time.monotonic()
        try:
            passed, detail = action()
        except (ServerError, OSError, subprocess.SubprocessError, KeyError, ValueError) as error:
            passed, detail = False, f"{type(error).__name__}: {error}"
        self.rows.append((name, passed, detail, time.monotonic() - start))
        print(f"    {'ok' if passed else 'FAILED'}: {detail}", flush=True)
        return passed

    def check_with(self, name: str, action, needs: str, there: bool) -> bool:
        """A check that needs a program which only Debian 12's scripts install: elsewhere it is left out, and that is told."""
        if there or debian_12():
            return self.check(name, action if there else lambda: (False, f"{needs}: not found, although tools/setup.sh installs it"))
        if not self.only or name in self.only:
            print(f"==> {name}\n    LEFT OUT: {needs}: not found", flush=True)
            self.left_out.append(f"{name} ({needs})")
        return False

    def command(self, name: str, command: list[str], seconds: float = STEP_SECONDS, env: dict | None = None) -> tuple[int, str]:
        """Exit status and the last lines of a command whose whole output lies in OUT/name.log."""
        log = self.out / f"{name}.log"
        with open(log, "w") as out:
            done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=seconds, env=env)
        return done.returncode, " | ".join(log.read_text(errors="replace").splitlines()[-3:])

    def guarded(self, name: str, action) -> None:
        """A server that does not start fails one row, not the whole run."""
        try:
            action()
        except ServerError as error:
            message = str(error)
            self.check(f"{name}_start", lambda: (False, message))

    def lm_eval(self, name: str, task: str, metric: str, server: Server, least: float | None = SCORE, most: int | None = None) -> tuple[bool, str]:
        """The score on at most `most` problems, which must be at least `least`."""
        out = self.out / name
        env = {**os.environ, "LM_EVAL": str(pathlib.Path(sys.executable).parent / "lm_eval")}
        problems = min(self.problems(), most or PROBLEMS)
        if problems < PROBLEMS:
            env["LIMIT"] = str(problems)
        status, tail = self.command(name, [str(ROOT / "eval" / "run.sh"), task, server.url, server.name, str(MODEL), str(out)], env=env)
        if status != 0:
            return False, f"eval/run.sh ended with status {status}: {tail}"
        newest = max(out.rglob("results_*.json"), key=lambda p: p.name)
        score = self.scores[name] = next(iter(json.loads(newest.read_text())["results"].values()))[metric]
        return least is None or score >= least, f"{metric} {score:.4f} on {problems} problems" + (f" (at least {least:.4g})" if least is not None else "")

    def problems(self) -> int:
        return self.limit or PROBLEMS


def normal_server(run: Run) -> None:
    with run.server("normal") as server:
        run.check("completions", lambda: run.lm_eval("completions", "gsm_tiny", "exact_match,strict-match", server))
        run.check("chat", lambda: run.lm_eval("chat", "gsm_tiny_chat", "exact_match,strict-match", server))
        run.check("loglikelihood", lambda: run.lm_eval("loglikelihood", "gsm_tiny_ll", "acc,none", server))

        def client_calls():
            status, tail = run.command("client_calls", [sys.executable, str(ROOT / "tools" / "client_calls.py"), server.url, "--model", server.name])
            return status == 0, tail
        run.check("client_calls", client_calls)

        def metrics_text():
            done = subprocess.run(["promtool", "check", "metrics"], input=server.get("/metrics"), capture_output=True, text=True, timeout=60)
            # 3: remarks on names, which are vLLM's; 1: the text does not parse.
            return done.returncode in (0, 3), f"promtool exit status {done.returncode} {done.stderr.splitlines()[-1] if done.returncode == 1 else ''}"
        run.check_with("metrics_text", metrics_text, "promtool", shutil.which("promtool") is not None)

        def busy_core():
            status, tail = run.command("busy_core", [sys.executable, str(ROOT / "eval" / "busy_core.py"), server.url, server.name,
                                                     "--seconds", "6" if run.quick else "15"], 180)
            return status == 0, tail.rsplit(" | ", 1)[-1]
        if not run.sanitized:
            run.check("busy_core", busy_core)

        def page():
            status, tail = run.command("page", [sys.executable, str(ROOT / "eval" / "page_check.py"), server.url, str(run.out / "page")], 400)
            return status == 0, tail
        run.check_with("page", page, "chromium and chromedriver", web_driver.available())
        run.check("plan_matches", lambda: plan_matches(server))
        run.check("clean_stop", lambda: stopped_cleanly(server))


def tiny_pool(run: Run, name: str) -> None:
    with run.server(name, TINY_POOLS[name]) as server:
        def preempted():
            passed, detail = run.lm_eval(name, "gsm_tiny", "exact_match,strict-match", server)
            preemptions = server.counter("vllm:num_preemptions_total")
            wanted = MANY_PREEMPTIONS if not run.limit else MANY_PREEMPTIONS * run.limit // PROBLEMS
            return passed and preemptions >= wanted, f"{detail}, {preemptions:.0f} preemptions (at least {wanted})"
        run.check(name, preempted)

        kv_caches.same_answers(run, name, "completions")
        run.check(f"{name}_clean_stop", lambda: stopped_cleanly(server))


def output_of(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=READY_SECONDS).stdout.strip()


def write_results(run: Run, page: pathlib.Path) -> None:
    """The figures beside `page`, and the page made of them."""
    def first(file: str, key: str) -> str:
        return next((line.split(":", 1)[1].strip() for line in pathlib.Path(file).read_text().splitlines() if line.startswith(key)), "unknown")
    raw = {"command": "eval/e2e.sh --results docs/RESULTS.md",
           "date": datetime.date.today().isoformat(),
           "program": {"version": output_of([str(run.binary), "--version"]), "commit": output_of(["git", "rev-parse", "--short=12", "HEAD"]), "build": run.preset},
           "machine": {"cpu": first("/proc/cpuinfo", "model name"), "cores": os.cpu_count(), "memory_gib": round(int(first("/proc/meminfo", "MemTotal").split()[0]) / 2**20),
                       "load_average_before": round(run.load_average, 1)},
           "model": MODEL.relative_to(ROOT).as_posix(),
           "dtype": json.loads((MODEL / "config.json").read_text())["dtype"],
           "lm_eval": importlib.metadata.version("lm_eval"),
           "runs": run.runs,
           "checks": [{"name": name, "passed": passed, "seconds": round(seconds, 1), "detail": detail} for name, passed, detail, seconds in run.rows]}
    page.with_name(results.RAW_NAME).write_text(json.dumps(raw, indent=1) + "\n")
    page.write_text(results.render(raw))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter phases, one tiny pool; each check under three minutes")
    parser.add_argument("--preset", default="release", help="build/PRESET/bin/quire is tested (release)")
    parser.add_argument("--binary", help="test this program instead")
    parser.add_argument("--only", help="comma-separated names of the checks to run")
    parser.add_argument("--results", help="write the figures of a whole run to this Markdown file (docs/RESULTS.md) and to RESULTS.json beside it")
    arguments = parser.parse_args()
    if arguments.results and (arguments.quick or arguments.only or arguments.preset != "release"):
        parser.error("--results is for a whole run of the release build: without --quick, --only and --preset")
    run = Run(arguments)
    run.out.mkdir(parents=True, exist_ok=True)

    run.guarded("normal", lambda: normal_server(run))
    run.guarded("tiny_pool", lambda: tiny_pool(run, "tiny_pool"))
    if not run.quick:
        run.guarded("tiny_pool_uncached", lambda: tiny_pool(run, "tiny_pool_uncached"))
    kv_caches.all_checks(run)
    threads.all_checks(run)

    width = max((len(row[0]) for row in run.rows), default=0)
    print()
    for name, passed, detail, seconds in run.rows:
        print(f"{name:<{width}}  {'ok' if passed else 'FAILED':<6}  {seconds:6.1f} s  {detail}")
    if arguments.results:
        write_results(run, pathlib.Path(arguments.results))
    failed = sum(not row[1] for row in run.rows)
    if run.left_out:
        print("left out: " + ", ".join(run.left_out))
    print(f"{len(run.rows) - failed} passed, {failed} failed")
    return 1 if failed or not run.rows else 0


if __name__ == "__main__":
    sys.exit(main())
