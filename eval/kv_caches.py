"""End-to-end checks of KV caches, which eval/e2e.py runs: every kind of cache, e4m3 in every graph mode, and the hot twin (twins.py), whose keys and values only the right
scales hold.

The calibrated checkpoint is made here: the largest keys and values that `quire doctor` sees in its built-in text, with room above them."""
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import time

import twins
from server_process import Server, ServerError

HERE = pathlib.Path(__file__).resolve().parent
GRAPH_MODES = ["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"]
BACKENDS = ["CPU_UNIFIED", "CPU_SPLIT"]
SCORE = 0.99  # with a 16-bit cache
LOSS = 0.02   # that an FP8 cache with scales may cost at most
RUINED = 0.5  # above this score, keys and values that no FP8 number can hold were not ruined
QUICK_PROBLEMS = 40  # of an FP8 cache in the quick form
# The largest e4m3 number is 448: keys and values may be twice as large as any of the built-in text.
CALIBRATED_TO = 224.0


@dataclasses.dataclass(frozen=True)
class KvCache:
    name: str                # in names of runs
    label: str               # on the page of results
    flags: tuple[str, ...]
    calibrated: bool = False
    fnuz: bool = False

    def environment(self) -> dict[str, str]:
        return {"QUIRE_FP8_FLAVOR": "fnuz"} if self.fnuz else {}


BFLOAT16 = KvCache("", "bfloat16", ())
E4M3 = KvCache("e4m3", "e4m3, calibrated", ("--kv-cache-dtype", "fp8"), calibrated=True)
OTHERS = [KvCache("e4m3_bare", "e4m3, without scales", ("--kv-cache-dtype", "fp8")), KvCache("e5m2", "e5m2", ("--kv-cache-dtype", "fp8_e5m2")),
          KvCache("fnuz", "e4m3 FNUZ, calibrated", ("--kv-cache-dtype", "fp8"), calibrated=True, fnuz=True)]
FNUZ = OTHERS[-1]


def run_name(backend: str, mode: str, cache: KvCache) -> str:
    return "_".join(part for part in (backend.lower(), mode.lower(), cache.name) if part)


def calibrated(run) -> pathlib.Path:
    """A twin of the model with the scales of an FP8 cache; made once in a run."""
    out = run.out / "calibrated"
    if run.made.get("calibrated") == out:
        return out
    command = [str(run.binary), "doctor", str(run.model), "--kv-cache-dtype", "fp8", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=run.ready_seconds)
    if done.returncode != 0:
        raise ServerError(f"quire doctor ended with status {done.returncode}: {done.stderr[-500:]}")
    layers = json.loads(done.stdout)["kv_gate"]["layers"]
    twins.with_scales(run.model, out, *([layer[part]["largest"] / CALIBRATED_TO for layer in layers] for part in ("keys", "values")))
    run.made["calibrated"] = out
    return out


def hot(run, of_calibrated: bool) -> pathlib.Path:
    return twins.hot_twin(calibrated(run) if of_calibrated else run.model, run.out / ("hot_calibrated" if of_calibrated else "hot"))


def same_answers(run, name: str, standard: str) -> bool:
    def compare():
        status, tail = run.command(f"{name}_compare", [sys.executable, str(HERE / "compare_samples.py"), str(run.out / standard), str(run.out / name)])
        return status == 0, tail
    return run.check(f"{name}_same_answers", compare)


def least_score(run, cache: KvCache) -> float | None:
    """None: the score is measured, and none is too low."""
    if not cache.flags:
        return SCORE
    return run.scores.get("completions", 1.0) - LOSS if cache.calibrated else None


def most_problems(run, cache: KvCache) -> int | None:
    return QUICK_PROBLEMS if run.quick and cache.flags else None


def few_at_once(run, cache: KvCache) -> list[str]:
    """Few problems at once would all be read in one or two large steps. Here some wait until others end, so that steps are mixed; graphs
    for them are recorded as with the default number of sequences. No flags: there are problems enough."""
    problems = min((n for n in (most_problems(run, cache), run.limit) if n is not None), default=None)
    return [] if problems is None else ["--max-num-seqs", str(problems // 4), "--max-cudagraph-capture-size", "512"]


def graph_mode(run, backend: str, mode: str, cache: KvCache) -> None:
    """One cache in one mode on one CPU row: the score, the same answers as in every other mode, and that steps really ran in that mode."""
    name = run_name(backend, mode, cache)
    model = calibrated(run) if cache.calibrated else run.model
    with run.server(name, ["--attention-backend", backend, "-cc.cudagraph_mode", mode, *cache.flags, *few_at_once(run, cache)], model, cache.environment()) as server:
        log = server.log.read_text()
        resolved = re.search(r" graph mode (\w+): ", log).group(1)
        measured = {"name": name, "attention": backend, "graph_mode": mode, "runs_as": resolved, "kv_cache": cache.label}

        def score():
            passed, detail = run.lm_eval(name, "gsm_tiny", "exact_match,strict-match", server, least_score(run, cache), most_problems(run, cache))
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
        start = time.monotonic()
        ran = run.check(name, score)
        measured["seconds"] = round(time.monotonic() - start, 1)
        # The first run with a cache is what the others must repeat.
        standard = run.standards.setdefault(cache.label, name if ran else None)
        if standard is not None and standard != name:
            measured["same_answers"] = same_answers(run, name, standard)
        if name in run.scores and "steps" in measured:
            run.runs.append({**measured, "score": run.scores[name], "problems": run.problems()})


def hot_cache(run, cache: KvCache) -> None:
    """Powers of two change no bit of an answer: the hot twin repeats what the model said with the same cache."""
    name = f"hot_{cache.name or 'bfloat16'}"
    model = hot(run, cache.calibrated)
    with run.server(name, list(cache.flags), model, cache.environment()) as server:
        run.check(name, lambda: run.lm_eval(name, "gsm_tiny", "exact_match,strict-match", server, least_score(run, cache), most_problems(run, cache)))
        if run.standards.get(cache.label):
            same_answers(run, name, run.standards[cache.label])


def hot_without_scales(run) -> None:
    """Refused; and ruined where that is relaxed."""
    model, flags = hot(run, False), ["--kv-cache-dtype", "fp8"]

    def refused():
        with Server(run.binary, model, run.out / "server-hot_refused.log", flags) as server:
            try:
                server.wait_ready(run.ready_seconds)
            except ServerError as error:
                said = re.search(r"the FP8 KV cache loses too much of this model: .*?(?=\. Its scales)", str(error))
                return said is not None and server.process.returncode == 1, said.group(0) if said else str(error)
            return False, "served"
    run.check("hot_refused", refused)
    with run.server("hot_relaxed", [*flags, "--relaxed", "kv-scales"], model) as server:
        def ruined():
            run.lm_eval("hot_relaxed", "gsm_tiny", "exact_match,strict-match", server, None, QUICK_PROBLEMS)
            score = run.scores["hot_relaxed"]
            warned = server.counter_of("quire:relaxed_checks", {"check": "kv-scales"}) == 1
            return score < RUINED and warned, f"score {score:.4f} on {QUICK_PROBLEMS} problems without scales (below {RUINED}, or the scales did not matter)"
        run.check("hot_relaxed", ruined)


def hot_checks(run) -> None:
    for cache in [E4M3] if run.quick else [BFLOAT16, E4M3, FNUZ]:
        run.guarded(f"hot_{cache.name or 'bfloat16'}", lambda c=cache: hot_cache(run, c))
    run.guarded("hot_without_scales", lambda: hot_without_scales(run))


def combinations(quick: bool) -> list[tuple[str, str, KvCache]]:
    if quick:
        return [("CPU_SPLIT", "FULL", BFLOAT16), ("CPU_SPLIT", "FULL", E4M3)]
    every_mode = [(backend, mode, cache) for cache in (BFLOAT16, E4M3) for backend in BACKENDS for mode in GRAPH_MODES]
    return every_mode + [("CPU_UNIFIED", "FULL", cache) for cache in OTHERS]


def all_checks(run) -> None:
    run.standards[BFLOAT16.label] = "completions"
    for backend, mode, cache in combinations(run.quick):
        run.guarded(run_name(backend, mode, cache), lambda b=backend, m=mode, c=cache: graph_mode(run, b, m, c))
    hot_checks(run)
