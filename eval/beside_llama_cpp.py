"""A GGUF file here and in llama.cpp (tools/llama_cpp/build_tools.sh builds it): perplexity of one text, token ids and rendered chats of 500
strings, and greedy answers. Exit status 1 when the perplexities differ by more than --limit or a string's ids or chats differ. See --help;
docs/NUMERICS.md has the figures."""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import perplexity_text  # noqa: E402
from llama_cpp_server import STEP_SECONDS, LlamaCppServer  # noqa: E402
from server_process import Server  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
STRINGS = ROOT / "tests" / "text" / "goldens" / "smollm2.json"
WINDOW = 512  # tokens; the second half of each is scored: the default of both programs


def perplexities(arguments: argparse.Namespace, text: pathlib.Path) -> dict:
    ours = subprocess.run([arguments.quire, "eval", arguments.model, "--text", str(text), "--max-windows", str(arguments.windows), "--json", *arguments.flag],
                          stdout=subprocess.PIPE, text=True, check=True, timeout=STEP_SECONDS)
    result = json.loads(ours.stdout)["result"]
    theirs = subprocess.run([f"{arguments.llama_cpp}/llama-perplexity", "-m", arguments.model, "-f", str(text), "-c", str(WINDOW), "-b", str(WINDOW), "--chunks", str(arguments.windows),
                             "-t", str(arguments.threads)], capture_output=True, text=True, check=True, timeout=STEP_SECONDS)
    final = re.search(r"Final estimate: PPL = ([\d.]+)", theirs.stdout + theirs.stderr)
    if final is None:
        raise ValueError(f"llama-perplexity ended without its estimate: {theirs.stderr[-400:]}")
    here, there = result["perplexity"], float(final.group(1))
    return {"windows": arguments.windows, "quire": here, "llama.cpp": there, "relative_difference": here / there - 1}


def questions(count: int) -> list[str]:
    return [json.loads(line)["question"] for line in perplexity_text.SOURCE.read_text(encoding="utf-8").splitlines()[:count]]


def conversations(text: str) -> list[list[dict]]:
    user = {"role": "user", "content": text}
    return [[user], [{"role": "system", "content": text}, {"role": "user", "content": "Hi"}], [user, {"role": "assistant", "content": text}, user]]


def string_differences(ours: Server, theirs: LlamaCppServer) -> dict:
    """Ids with the text of special tokens read as tokens on both sides. Chats as ids, or as text: a special token's text in a message stays
    text here (docs/CONTRACTS.md) and becomes the token in llama.cpp, and bytes that no token stands for are in no ids."""
    strings = [entry[0] for entry in json.loads(STRINGS.read_text())["texts"]]
    ids, chats, count = [], [], 0
    for text in strings:
        here = ours.post("/tokenize", {"model": ours.name, "prompt": text, "add_special_tokens": False})["tokens"]
        if here != theirs.post("/tokenize", {"content": text, "add_special": False, "parse_special": True})["tokens"]:
            ids.append(text)
        for messages in conversations(text):
            count += 1
            tokens = ours.post("/tokenize", {"model": ours.name, "messages": messages, "add_generation_prompt": True})["tokens"]
            rendered = theirs.post("/apply-template", {"messages": messages})["prompt"]
            if tokens != theirs.post("/tokenize", {"content": rendered, "add_special": False, "parse_special": True})["tokens"] and \
                    rendered != ours.post("/detokenize", {"model": ours.name, "tokens": tokens})["prompt"]:
                chats.append(messages)
    return {"strings": len(strings), "different_ids": ids, "conversations": count, "different_chats": chats}


def answers(arguments: argparse.Namespace, ours: Server, theirs: LlamaCppServer) -> dict:
    asked = [chat(ours.name, question, arguments.max_tokens) for question in questions(arguments.answers)]
    content = lambda reply: reply["choices"][0]["message"]["content"]  # noqa: E731
    pairs = [(content(ours.post("/v1/chat/completions", body)), content(theirs.post("/v1/chat/completions", {**body, "cache_prompt": False}))) for body in asked]
    return {"asked": len(pairs), "equal": sum(a == b for a, b in pairs), "shared_share": sum(shared_share(a, b) for a, b in pairs) / len(pairs),
            "different": [{"quire": a, "llama.cpp": b} for a, b in pairs if a != b][:5]}


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
    parser.add_argument("--windows", type=int, default=50, help="of 512 tokens, scored; no more than the text has")
    parser.add_argument("--answers", type=int, default=20, help="greedy answers to compare; 0: none")
    parser.add_argument("--no-strings", action="store_true", help="leave ids and chats out")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2, help="of llama.cpp")
    parser.add_argument("--limit", type=float, default=0.005, help="largest relative difference of the perplexities")
    parser.add_argument("--flag", action="append", default=[], help="for quire, one word each: --flag=--dtype --flag=float32")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text = folder / "text.txt"
        text.write_text(perplexity_text.text(arguments.problems), encoding="utf-8")
        out = {"model": pathlib.Path(arguments.model).name, "perplexity": perplexities(arguments, text)}
        good = abs(out["perplexity"]["relative_difference"]) <= arguments.limit
        if arguments.answers or not arguments.no_strings:
            with Server(pathlib.Path(arguments.quire), pathlib.Path(arguments.model), folder / "quire.log", arguments.flag) as ours, \
                    LlamaCppServer(arguments.llama_cpp, arguments.model, folder / "llama.log", threads=arguments.threads) as theirs:
                ours.wait_ready(600)
                if not arguments.no_strings:
                    out["strings"] = string_differences(ours, theirs)
                    good = good and not out["strings"]["different_ids"] and not out["strings"]["different_chats"]
                if arguments.answers:
                    out["answers"] = answers(arguments, ours, theirs)
    print(json.dumps(out, indent=1))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
