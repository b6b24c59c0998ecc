"""GSM8K through lm_eval, 5-shot in the chat template, on `quire serve` and on llama.cpp's server (tools/llama_cpp/build_tools.sh builds it)
with the same GGUF file, one after the other: eval/run.sh gsm8k_local. The tokenizer folder is what `quire export-tokenizer` writes of the
file. Prints a JSON document; exit status 1 when the scores differ by more than the standard error of their difference."""
import argparse
import contextlib
import json
import math
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from llama_cpp_server import STEP_SECONDS, LlamaCppServer  # noqa: E402
from server_process import Server  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
METRICS = ("strict-match", "flexible-extract")


def ask(arguments: argparse.Namespace, url: str, name: str, out: pathlib.Path) -> dict:
    environment = {**os.environ, "LIMIT": str(arguments.problems), "MAX_TOKS": str(arguments.max_tokens), "TIMEOUT": str(2 * STEP_SECONDS), "CONCURRENT": str(arguments.concurrent)}
    start = time.monotonic()
    subprocess.run([HERE / "run.sh", "gsm8k_local", url, name, arguments.out / "tokenizer", out, "--apply_chat_template"], env=environment, stdout=sys.stderr, check=True, timeout=2 * STEP_SECONDS)
    seconds = time.monotonic() - start
    results = json.loads(max(out.rglob("results_*.json")).read_text())["results"]["gsm8k_local"]
    return {"seconds": round(seconds, 1), **{metric: {"score": results[f"exact_match,{metric}"], "standard_error": results[f"exact_match_stderr,{metric}"]} for metric in METRICS}}


def answers(out: pathlib.Path) -> dict[int, str]:
    lines = max(out.rglob("samples_*.jsonl")).read_text().splitlines()
    return {sample["doc_id"]: sample["resps"][0][0] for sample in map(json.loads, lines)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a .gguf file")
    parser.add_argument("--llama-cpp", required=True, help="folder of llama-server")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the tokenizer, lm_eval's files and logs")
    parser.add_argument("--quire", type=pathlib.Path, default=HERE.parent / "build" / "release" / "bin" / "quire")
    parser.add_argument("--problems", type=int, default=250)
    parser.add_argument("--max-tokens", type=int, default=1024)
    parser.add_argument("--concurrent", type=int, default=256)
    parser.add_argument("--slots", type=int, default=16, help="of llama-server; each gets a context of 4096 tokens")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of llama-server")
    parser.add_argument("--flag", action="append", default=[], help="for quire, one word each")
    arguments = parser.parse_args()
    subprocess.run([arguments.quire, "export-tokenizer", arguments.model, "--output", arguments.out / "tokenizer", "--overwrite"], stdout=sys.stderr, check=True, timeout=STEP_SECONDS)
    out = {"model": pathlib.Path(arguments.model).name, "problems": arguments.problems, "max_tokens": arguments.max_tokens}
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Server(arguments.quire, pathlib.Path(arguments.model), arguments.out / "quire.log", arguments.flag))
        server.wait_ready(600)
        out["quire"] = ask(arguments, server.url, server.name, arguments.out / "quire")
    with LlamaCppServer(arguments.llama_cpp, arguments.model, arguments.out / "llama.cpp.log", threads=arguments.threads, context=4096 * arguments.slots, slots=arguments.slots) as other:
        out["llama.cpp"] = ask(arguments, other.url, "m", arguments.out / "llama.cpp")
    here, there = answers(arguments.out / "quire"), answers(arguments.out / "llama.cpp")
    out["equal_answers"] = sum(here[key] == there.get(key) for key in here)
    good = True
    for metric in METRICS:
        a, b = out["quire"][metric], out["llama.cpp"][metric]
        error = math.hypot(a["standard_error"], b["standard_error"])
        out[metric] = {"difference": a["score"] - b["score"], "standard_error": error}
        good = good and abs(a["score"] - b["score"]) <= error
    print(json.dumps(out, indent=1))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
