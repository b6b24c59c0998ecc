"""The text that perplexities are measured on: the first problems of eval/data/gsm8k with their answers. perplexity_text.py FILE [PROBLEMS]"""
import json
import pathlib
import sys

SOURCE = pathlib.Path(__file__).resolve().parent / "data" / "gsm8k" / "test.jsonl"
PROBLEMS = 150


def text(problems: int = PROBLEMS) -> str:
    rows = [json.loads(line) for line in SOURCE.read_text(encoding="utf-8").splitlines()[:problems]]
    return "".join(f"Question: {row['question']}\nAnswer: {row['answer']}\n\n" for row in rows)


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text(text(int(sys.argv[2]) if len(sys.argv) > 2 else PROBLEMS), encoding="utf-8")
