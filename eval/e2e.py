"""End-to-end checks against the built server; eval/e2e.sh starts this inside build/venv. See --help and CHECKS below."""
import argparse
import datetime
import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import results  # noqa: E402
import web_driver  # noqa: E402
from server_process import Server, ServerError  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "models" / "gsm-tiny"
SCORE = 0.99
# Sanitizer builds are 10 to 20 times slower; bounds are for hanging, not for speed.
READY_SECONDS = 120
STEP_SECONDS = 900
# 5-shot prompts are about 480 tokens, answers about 45: each sequence grows by three blocks of 16 beyond its prompt. These pools hold
# one sequence of --max-model-len and a few running ones, so that growth takes blocks from the newest again and again: about 200 times
# in 400 problems (how often depends on when requests arrive).
TINY_POOLS = {"tiny_pool": ["--block-size", "16", "--max-model-len", "768", "--num-gpu-blocks-override", "48"],
              "tiny_pool_uncached": ["--block-size", "16", "--max-model-len", "1024", "--num-gpu-blocks-override", "64", "--no-enable-prefix-caching"]}
MANY_PREEMPTIONS = 150


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
        self.only = arguments.only.split(",") if arguments.only else None

    def server(self, name: str, flags: list[str] = ()) -> Server:
        server = Server(self.binary, MODEL, self.out / f"server-{name}.log", list(flags))
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

    def command(self, name: str, command: list[str], seconds: float = STEP_SECONDS, env: dict | None = None) -> tuple[int, str]:
        """Exit status and the last lines of a command whose whole output lies in OUT/name.log."""
        log = self.out / f"{name}.log"
        with open(log, "w") as out:
            done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=seconds, env=env)
        return done.returncode, " | ".join(log.read_text(errors="replace").splitlines()[-3:])

    def lm_eval(self, name: str, task: str, metric: str, server: Server) -> tuple[bool, str]:
        out = self.out / name
        env = {**os.environ, "LM_EVAL": str(pathlib.Path(sys.executable).parent / "lm_eval")}
        if self.limit:
            env["LIMIT"] = str(self.limit)
        status, tail = self.command(name, [str(ROOT / "eval" / "run.sh"), task, server.url, server.name, str(MODEL), str(out)], env=env)
        if status != 0:
            return False, f"eval/run.sh ended with status {status}: {tail}"
        newest = max(out.rglob("results_*.json"), key=lambda p: p.name)
        score = self.scores[name] = next(iter(json.loads(newest.read_text())["results"].values()))[metric]
        return score >= SCORE, f"{metric} {score:.4f} on {self.problems()} problems (at least {SCORE})"

    def problems(self) -> int:
        return self.limit or 400


def stopped_cleanly(server: Server) -> tuple[bool, str]:
    status = server.stop()
    reports = server.reports()
    return status == 0 and not reports, f"exit status {status} after SIGTERM, {len(reports)} reports in the log{': ' + reports[0] if reports else ''}"


def plan_matches(server: Server) -> tuple[bool, str]:
    """`quire plan` with the server's flags against what the server holds, and no allocation since it started."""
    held = server.memory_items()
    # The default pool follows from the memory that is free at the moment, so the server's own size is asked for.
    command = [str(server.binary), "plan", str(server.model), *server.flags, "--kv-cache-memory-bytes", str(held["kv_pool"]), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=READY_SECONDS)
    if done.returncode != 0:
        return False, f"quire plan ended with status {done.returncode}: {done.stderr.strip()}"
    planned = {item["item"]: item["bytes"] for item in json.loads(done.stdout)["items"]}
    wrong = [f"{item} {planned.get(item)} planned, {held.get(item)} held" for item in sorted({*planned, *held}) if planned.get(item) != held.get(item)]
    later = server.counter("quire:device_allocations_after_start_total")
    return not wrong and later == 0, f"{len(planned)} items, {sum(planned.values())} bytes; differences: {wrong or 'none'}; {later:.0f} allocations after start"


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
        if shutil.which("promtool"):
            run.check("metrics_text", metrics_text)

        def busy_core():
            status, tail = run.command("busy_core", [sys.executable, str(ROOT / "eval" / "busy_core.py"), server.url, server.name,
                                                     "--seconds", "6" if run.quick else "15"], 180)
            return status == 0, tail.rsplit(" | ", 1)[-1]
        if not run.sanitized:
            run.check("busy_core", busy_core)

        def page():
            status, tail = run.command("page", [sys.executable, str(ROOT / "eval" / "page_check.py"), server.url, str(run.out / "page")], 400)
            return status == 0, tail
        if web_driver.available():
            run.check("page", page)
        run.check("plan_matches", lambda: plan_matches(server))
        run.check("clean_stop", lambda: stopped_cleanly(server))


def tiny_pool(run: Run, name: str) -> None:
    with run.server(name, TINY_POOLS[name]) as server:
        def preempted():
            passed, detail = run.lm_eval(name, "gsm_tiny", "exact_match,strict-match", server)
            preemptions = server.counter("vllm:num_preemptions_total")
            wanted = MANY_PREEMPTIONS if not run.limit else MANY_PREEMPTIONS * run.limit // 400
            return passed and preemptions >= wanted, f"{detail}, {preemptions:.0f} preemptions (at least {wanted})"
        run.check(name, preempted)

        def same_answers():
            status, tail = run.command(f"{name}_compare", [sys.executable, str(ROOT / "eval" / "compare_samples.py"),
                                                           str(run.out / "completions"), str(run.out / name)])
            return status == 0, tail
        run.check(f"{name}_same_answers", same_answers)
        run.check(f"{name}_clean_stop", lambda: stopped_cleanly(server))


# vLLM pull request #25104's server line, word for word; each of these flags and variables has no effect here and says so once.
THREAD_25104 = ["-tp", "1", "--max-num-batched-tokens", "131072", "--max-num-seqs", "1024", "--max-seq-len-to-capture", "16384", "--max-model-len", "10240",
                "--swap-space", "64", "--no-enable-prefix-caching", "--disable-log-requests", "--disable-uvicorn-access-log", "--trust-remote-code",
                "--gpu-memory-utilization", "0.90", "-O", '{"compilation_config":"FULL"}']
WITHOUT_EFFECT = ["VLLM_ROCM_USE_AITER_MHA", "--trust-remote-code", "--gpu-memory-utilization", "--swap-space", "--max-seq-len-to-capture",
                  "--disable-log-requests", "cudagraph_mode"]


def thread_25104(run: Run, name: str, model: pathlib.Path, flags: list[str]) -> None:
    os.environ["VLLM_ROCM_USE_AITER_MHA"] = "1"
    try:
        server = Server(run.binary, model, run.out / f"server-{name}.log", [*THREAD_25104, *flags])
    finally:
        del os.environ["VLLM_ROCM_USE_AITER_MHA"]
    with server:
        server.wait_ready(READY_SECONDS)

        def answers():
            usage = server.post("/v1/completions", {"prompt": [5, 6, 7], "max_tokens": 8, "ignore_eos": True})["usage"]
            warnings = [line for line in server.log.read_text().splitlines() if " warning " in line]
            missing = [what for what in WITHOUT_EFFECT if sum(what in line for line in warnings) != 1]
            return usage["completion_tokens"] == 8 and not missing, f"{len(warnings)} warnings; not told exactly once: {missing or 'none'}"
        run.check(name, answers)
        run.check(f"{name}_plan_matches", lambda: plan_matches(server))
        run.check(f"{name}_clean_stop", lambda: stopped_cleanly(server))


GRAPH_MODES = ["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"]


def run_name(backend: str, mode: str, kv_cache: str) -> str:
    return f"{backend}_{mode}".lower() + ("" if kv_cache == "bfloat16" else f"_{kv_cache}")


# KV caches that every mode is run with: the flags, and the run whose answers all of them must repeat.
KV_CACHES = {"bfloat16": ([], "completions")}


def graph_mode(run: Run, backend: str, mode: str, kv_cache: str) -> None:
    """One mode on one CPU row: the score, the same answers in every mode, and that steps really ran in that mode."""
    name = run_name(backend, mode, kv_cache)
    kv_flags, standard = KV_CACHES[kv_cache]
    with run.server(name, ["--attention-backend", backend, "-cc.cudagraph_mode", mode, *kv_flags]) as server:
        log = server.log.read_text()
        resolved = re.search(r" graph mode (\w+): ", log).group(1)
        measured = {"name": name, "attention": backend, "graph_mode": mode, "runs_as": resolved, "kv_cache": kv_cache}

        def score():
            passed, detail = run.lm_eval(name, "gsm_tiny", "exact_match,strict-match", server)
            steps = {m: int(server.counter_of("quire:graph_steps_total", {"mode": m})) for m in ("NONE", "PIECEWISE", "FULL")}
            measured["steps"] = steps
            graphs = steps["PIECEWISE"] + steps["FULL"]
            expected = graphs == 0 if mode == "NONE" else steps["PIECEWISE"] > 0 if mode == "PIECEWISE" else steps["FULL"] > 0
            if (backend, mode) == ("CPU_SPLIT", "FULL"):  # vLLM #25104: lowered, with a warning
                lowered = resolved == "FULL_AND_PIECEWISE" and re.search(r" warning .*cudagraph_mode FULL runs as FULL_AND_PIECEWISE", log)
                expected = expected and lowered is not None and steps["PIECEWISE"] > 0
            else:
                expected = expected and resolved == mode
            return passed and expected, f"{detail}; runs as {resolved}, steps {steps}"

        def same_answers():
            status, tail = run.command(f"{name}_compare", [sys.executable, str(ROOT / "eval" / "compare_samples.py"),
                                                           str(run.out / standard), str(run.out / name)])
            return status == 0, tail
        start = time.monotonic()
        run.check(name, score)
        measured["seconds"] = round(time.monotonic() - start, 1)
        measured["same_answers"] = run.check(f"{name}_same_answers", same_answers)
        if name in run.scores and "steps" in measured:
            run.runs.append({**measured, "score": run.scores[name], "problems": run.problems()})


def failing_start(run: Run, name: str, action) -> None:
    """A server that does not start fails one row, not the whole run."""
    try:
        action()
    except ServerError as error:
        message = str(error)
        run.check(f"{name}_start", lambda: (False, message))


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

    failing_start(run, "normal", lambda: normal_server(run))
    failing_start(run, "tiny_pool", lambda: tiny_pool(run, "tiny_pool"))
    if not run.quick:
        failing_start(run, "tiny_pool_uncached", lambda: tiny_pool(run, "tiny_pool_uncached"))

    combinations = [("CPU_SPLIT", "FULL", "bfloat16")] if run.quick else [(b, m, kv) for kv in KV_CACHES for b in ("CPU_UNIFIED", "CPU_SPLIT") for m in GRAPH_MODES]
    for combination in combinations:
        failing_start(run, run_name(*combination), lambda c=combination: graph_mode(run, *c))
    failing_start(run, "thread_25104", lambda: thread_25104(run, "thread_25104", ROOT / "eval" / "models" / "llama-131k", ["--load-format", "dummy"]))
    failing_start(run, "thread_25104_gsm_tiny", lambda: thread_25104(run, "thread_25104_gsm_tiny", MODEL, ["--max-model-len", "2048"]))

    width = max((len(row[0]) for row in run.rows), default=0)
    print()
    for name, passed, detail, seconds in run.rows:
        print(f"{name:<{width}}  {'ok' if passed else 'FAILED':<6}  {seconds:6.1f} s  {detail}")
    if arguments.results:
        write_results(run, pathlib.Path(arguments.results))
    failed = sum(not row[1] for row in run.rows)
    print(f"{len(run.rows) - failed} passed, {failed} failed")
    return 1 if failed or not run.rows else 0


if __name__ == "__main__":
    sys.exit(main())
