"""Speed of a GGUF file here and in llama.cpp (tools/llama_cpp/build_tools.sh builds it), one program after the other, in turns, on a machine
that does nothing else: a prompt of 512 tokens, decode alone, decode of several streams. Prints a table (--json: a document) of medians.
Exit status 1 when a ratio is below its --goal. docs/PERFORMANCE.md has the figures.

Here: `quire bench latency`; a rate of decode is that of the tokens after the first (a run of 128 + 1 tokens less a run of 1), draws at
temperature 1 included. There: llama-bench and llama-batched-bench, which draw nothing. Both with --threads threads."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROMPT, SHORT, ANSWER = 512, 8, 128
STEP_SECONDS = 1800


def output_of(command: list[str]) -> str:
    print("+", " ".join(command), file=sys.stderr, flush=True)
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, timeout=STEP_SECONDS).stdout


def latency(a: argparse.Namespace, input_len: int, output_len: int, batch: int) -> float:
    document = json.loads(output_of([a.quire, "bench", "latency", a.model, "--num-threads", str(a.threads), "--max-model-len", "1024", "--input-len", str(input_len), "--output-len", str(output_len),
                                     "--batch-size", str(batch), "--num-iters-warmup", "1", "--num-iters", str(a.iterations), "--json", *a.flag]))
    return document["percentiles"]["50"]


def ours(a: argparse.Namespace) -> dict[str, float]:
    decode = lambda batch: batch * ANSWER / (latency(a, SHORT, ANSWER + 1, batch) - latency(a, SHORT, 1, batch))  # noqa: E731
    return {"prefill": PROMPT / latency(a, PROMPT, 1, 1), "decode": decode(1), "streams": decode(a.streams)}


def theirs(a: argparse.Namespace) -> dict[str, float]:
    rows = json.loads(output_of([f"{a.llama_cpp}/llama-bench", "-m", a.model, "-t", str(a.threads), "-p", str(PROMPT), "-n", str(ANSWER), "-r", str(a.iterations), "-o", "json"]))
    rate = lambda prompt: next(statistics.median(row["samples_ts"]) for row in rows if (row["n_prompt"] > 0) == prompt)  # noqa: E731
    lines = output_of([f"{a.llama_cpp}/llama-batched-bench", "-m", a.model, "-t", str(a.threads), "-tb", str(a.threads), "-c", "2048", "-npp", str(SHORT), "-ntg", str(ANSWER), "-npl", str(a.streams),
                       "--output-format", "jsonl"]).splitlines()
    return {"prefill": rate(True), "decode": rate(False), "streams": next(json.loads(line)["speed_tg"] for line in lines if line.startswith("{"))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a .gguf file")
    parser.add_argument("--llama-cpp", required=True, help="folder of llama-bench and llama-batched-bench")
    parser.add_argument("--quire", default=str(ROOT / "build" / "release" / "bin" / "quire"))
    parser.add_argument("--rounds", type=int, default=3, help="turns of both programs; the table has the median over them")
    parser.add_argument("--iterations", type=int, default=5, help="measurements in a turn")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--goal", type=float, nargs=3, metavar=("PREFILL", "DECODE", "STREAMS"), help="smallest ratios allowed")
    parser.add_argument("--flag", action="append", default=[], help="for quire, one word each")
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    turns = [(ours(a), theirs(a)) for _ in range(a.rounds)]
    rows = {}
    for work in ("prefill", "decode", "streams"):
        here, there = (statistics.median(turn[side][work] for turn in turns) for side in (0, 1))
        rows[work] = {"quire": here, "llama.cpp": there, "ratio": here / there, "turns": [[turn[0][work], turn[1][work]] for turn in turns]}
    if a.json:
        print(json.dumps({"model": pathlib.Path(a.model).name, "threads": a.threads, "streams": a.streams, "load": os.getloadavg()[0], "tokens_per_second": rows}, indent=1))
    else:
        print("| work | Quire | llama.cpp | ratio |\n|---|---|---|---|")
        for work, row in rows.items():
            print(f"| {work} | {row['quire']:.0f} | {row['llama.cpp']:.0f} | {row['ratio']:.2f} |")
    return 1 if a.goal and any(row["ratio"] < goal for row, goal in zip(rows.values(), a.goal)) else 0


if __name__ == "__main__":
    sys.exit(main())
