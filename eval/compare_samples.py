"""Compares the answers of two lm_eval runs, character by character: compare_samples.py OUT_DIR_A OUT_DIR_B.

Each folder holds one run's samples_*.jsonl (the newest counts). Exit status 1 when an answer differs or is in one run only.
"""
import json
import pathlib
import sys


def answers(folder: str) -> dict[int, list]:
    files = sorted(pathlib.Path(folder).rglob("samples_*.jsonl"), key=lambda p: p.name)
    if not files:
        sys.exit(f"{folder}: no samples_*.jsonl")
    found = {}
    for line in files[-1].read_text().splitlines():
        row = json.loads(line)
        found[row["doc_id"]] = row["resps"]
    if not found:
        sys.exit(f"{files[-1]}: no rows")
    return found


def main() -> int:
    first, second = answers(sys.argv[1]), answers(sys.argv[2])
    different = [i for i in sorted(first.keys() | second.keys()) if first.get(i) != second.get(i)]
    for i in different[:5]:
        print(f"doc {i}:\n  {first.get(i)!r}\n  {second.get(i)!r}")
    print(f"{len(first)} and {len(second)} answers, {len(different)} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
