"""End-to-end checks of the two command lines that the attention and KV-cache work was asked for with, vLLM pull requests #25104 and #20295."""
import pathlib
import re
import subprocess

import kv_caches
from server_checks import READY_SECONDS, plan_matches, stopped_cleanly
from server_process import Server, ServerError

MODELS = pathlib.Path(__file__).resolve().parent / "models"

# #25104's server line, word for word; each of these flags and variables has no effect here and says so once.
THREAD_25104 = ["-tp", "1", "--max-num-batched-tokens", "131072", "--max-num-seqs", "1024", "--max-seq-len-to-capture", "16384", "--max-model-len", "10240",
                "--swap-space", "64", "--no-enable-prefix-caching", "--disable-log-requests", "--disable-uvicorn-access-log", "--trust-remote-code",
                "--gpu-memory-utilization", "0.90", "-O", '{"compilation_config":"FULL"}']
ENVIRONMENT_25104 = {"VLLM_ROCM_USE_AITER_MHA": "1"}
WITHOUT_EFFECT_25104 = ["VLLM_ROCM_USE_AITER_MHA", "--trust-remote-code", "--gpu-memory-utilization", "--swap-space", "--max-seq-len-to-capture",
                        "--disable-log-requests", "cudagraph_mode"]
# #20295's, with one device and the model's length.
THREAD_20295 = ["--tensor-parallel-size", "1", "--gpu-memory-utilization", "0.9", "--trust-remote-code", "--disable-log-requests", "--block-size", "16", "--max-model-len", "2048",
                "--dtype", "float16", "--no-enable-prefix-caching", "--max-num-batched-tokens=8192", "--kv-cache-dtype", "fp8", "--compilation-config", '{"full_cuda_graph":true}']
ENVIRONMENT_20295 = {"HIP_VISIBLE_DEVICES": "3,4", "VLLM_ROCM_USE_AITER": "1", "VLLM_USE_V1": "1"}
WITHOUT_EFFECT_20295 = ["VLLM_ROCM_USE_AITER", "VLLM_USE_V1", "--trust-remote-code", "--gpu-memory-utilization", "--disable-log-requests", "full_cuda_graph"]
# Forms that `quire quantize --format` writes, with what #20295's line has beside the flags above.
FORMATS_20295: list[tuple[str, list[str]]] = [("fp8", ["--quantization", "fp8"]), ("quark", [])]


def not_told_once(server: Server, without_effect: list[str]) -> tuple[int, list[str]]:
    """How many warnings the log has, and which of these none or several of them name."""
    warnings = [line for line in server.log.read_text().splitlines() if " warning " in line]
    return len(warnings), [what for what in without_effect if sum(re.search(re.escape(what) + r"(?![\w-])", line) is not None for line in warnings) != 1]


def thread_25104(run, name: str, model: pathlib.Path, flags: list[str]) -> None:
    with run.server(name, [*THREAD_25104, *flags], model, ENVIRONMENT_25104) as server:
        def answers():
            usage = server.post("/v1/completions", {"prompt": [5, 6, 7], "max_tokens": 8, "ignore_eos": True})["usage"]
            warnings, missing = not_told_once(server, WITHOUT_EFFECT_25104)
            return usage["completion_tokens"] == 8 and not missing, f"{warnings} warnings; not told exactly once: {missing or 'none'}"
        run.check(name, answers)
        run.check(f"{name}_plan_matches", lambda: plan_matches(server))
        run.check(f"{name}_clean_stop", lambda: stopped_cleanly(server))


def quantised(run, form: str) -> pathlib.Path:
    """The model in FP8, with the KV scales that `quire quantize` calibrates."""
    out = run.out / f"quantised_{form}"
    command = [str(run.binary), "quantize", str(run.model), "--format", form, "--kv", "tensor", "--output", str(out), "--overwrite"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=5 * READY_SECONDS)
    if done.returncode != 0:
        raise ServerError(f"quire quantize --format {form} ended with status {done.returncode}: {done.stderr[-500:]}")
    return out


def thread_20295(run, form: str, flags: list[str]) -> None:
    name = f"thread_20295_{form}"
    with run.server(name, [*THREAD_20295, *flags], quantised(run, form), ENVIRONMENT_20295) as server:
        def score():
            passed, detail = run.lm_eval(name, "gsm_tiny", "exact_match,strict-match", server, run.scores.get("completions", 1.0) - kv_caches.LOSS)
            warnings, missing = not_told_once(server, WITHOUT_EFFECT_20295)
            return passed and not missing, f"{detail}; {warnings} warnings; not told exactly once: {missing or 'none'}"
        run.check(name, score)
        run.check(f"{name}_plan_matches", lambda: plan_matches(server))
        run.check(f"{name}_clean_stop", lambda: stopped_cleanly(server))


def all_checks(run) -> None:
    run.guarded("thread_25104", lambda: thread_25104(run, "thread_25104", MODELS / "llama-131k", ["--load-format", "dummy"]))
    run.guarded("thread_25104_gsm_tiny", lambda: thread_25104(run, "thread_25104_gsm_tiny", run.model, ["--max-model-len", "2048"]))
    for form, flags in FORMATS_20295:
        run.guarded(f"thread_20295_{form}", lambda f=form, g=flags: thread_20295(run, f, g))
