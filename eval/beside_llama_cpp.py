"""A GGUF file here and in llama.cpp (tools/llama_cpp/build_tools.sh builds it): perplexity of one text, and greedy answers. Exit status 1
when the perplexities differ by more than --limit. See --help; docs/NUMERICS.md has the figures."""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import perplexity_text  # noqa: E402
from server_process import Server, free_port  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
WINDOW = 512  # tokens; the second half of each is scored: the default of both programs
STEP_SECONDS = 3600


def perplexities(arguments: argparse.Namespace, text: pathlib.Path) -> dict:
    ours = subprocess.run([arguments.quire, "eval", arguments.model, "--text", str(text), "--json", *arguments.flag], capture_output=True, text=True, check=True, timeout=STEP_SECONDS)
    result = json.loads(ours.stdout)["result"]
    theirs = subprocess.run([f"{arguments.llama_cpp}/llama-perplexity", "-m", arguments.model, "-f", str(text), "-c", str(WINDOW), "-t", str(arguments.threads)],
                            capture_output=True, text=True, check=True, timeout=STEP_SECONDS)
    final = re.search(r"Final estimate: PPL = ([\d.]+)", theirs.stdout + theirs.stderr)
    if final is None:
        raise ValueError(f"llama-perplexity ended without its estimate: {theirs.stderr[-400:]}")
    here, there = result["perplexity"], float(final.group(1))
    return {"quire": here, "llama.cpp": there, "relative_difference": here / there - 1}


def wait_for(url: str, process: subprocess.Popen) -> None:
    for _ in range(1200):
        if process.poll() is not None:
            raise ValueError(f"llama-server ended with status {process.returncode}")
        try:
            with urllib.request.urlopen(url + "/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise ValueError("llama-server did not become ready")


def post(url: str, body: dict) -> dict:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=STEP_SECONDS) as answer:
        return json.load(answer)


def questions(count: int) -> list[str]:
    return [json.loads(line)["question"] for line in perplexity_text.SOURCE.read_text(encoding="utf-8").splitlines()[:count]]


def our_answers(arguments: argparse.Namespace, log: pathlib.Path) -> list[str]:
    with Server(pathlib.Path(arguments.quire), pathlib.Path(arguments.model), log, arguments.flag) as server:
        server.wait_ready(600)
        return [server.post("/v1/chat/completions", chat(server.name, q, arguments.max_tokens))["choices"][0]["message"]["content"] for q in questions(arguments.answers)]


def their_answers(arguments: argparse.Namespace, log: pathlib.Path) -> list[str]:
    port = free_port()
    with open(log, "w") as out:
        process = subprocess.Popen([f"{arguments.llama_cpp}/llama-server", "-m", arguments.model, "--port", str(port), "-t", str(arguments.threads), "-c", "4096", "-np", "1", "--jinja"],
                                   stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(url, process)
        return [post(url + "/v1/chat/completions", {**chat("m", q, arguments.max_tokens), "cache_prompt": False})["choices"][0]["message"]["content"] for q in questions(arguments.answers)]
    finally:
        process.terminate()
        process.wait()


def chat(model: str, question: str, max_tokens: int) -> dict:
    return {"model": model, "max_tokens": max_tokens, "temperature": 0, "messages": [{"role": "user", "content": question}]}


def shared_share(a: str, b: str) -> float:
    """How much of the longer answer both begin with."""
    shared = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return shared / max(len(a), len(b), 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a .gguf file")
    parser.add_argument("--llama-cpp", required=True, help="folder of llama-perplexity and llama-server")
    parser.add_argument("--quire", default=str(ROOT / "build" / "release" / "bin" / "quire"))
    parser.add_argument("--problems", type=int, default=perplexity_text.PROBLEMS, help="of eval/data/gsm8k in the text")
    parser.add_argument("--answers", type=int, default=20, help="greedy answers to compare; 0: none")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2, help="of llama.cpp")
    parser.add_argument("--limit", type=float, default=0.005, help="largest relative difference of the perplexities")
    parser.add_argument("--flag", action="append", default=[], help="for quire, one word each: --flag=--dtype --flag=float32")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder) / "text.txt"
        text.write_text(perplexity_text.text(arguments.problems), encoding="utf-8")
        out = {"model": pathlib.Path(arguments.model).name, "perplexity": perplexities(arguments, text)}
        if arguments.answers:
            pairs = list(zip(our_answers(arguments, pathlib.Path(folder) / "quire.log"), their_answers(arguments, pathlib.Path(folder) / "llama.log")))
            out["answers"] = {"asked": len(pairs), "equal": sum(a == b for a, b in pairs), "shared_share": sum(shared_share(a, b) for a, b in pairs) / len(pairs),
                              "different": [{"quire": a, "llama.cpp": b} for a, b in pairs if a != b][:5]}
    print(json.dumps(out, indent=1))
    return 0 if abs(out["perplexity"]["relative_difference"]) <= arguments.limit else 1


if __name__ == "__main__":
    sys.exit(main())
