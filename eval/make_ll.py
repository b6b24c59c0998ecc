"""Writes the log-likelihood task's rows: make_ll.py TEST_JSONL OUT_JSONL.

Each held-out problem becomes its question, the worked steps up to '####', and two continuations: the right final number and a
wrong one of as many digits (one digit differs, so neither length nor sign gives the answer away). Deterministic: the digit, its
change and the place of the right one follow from the row number alone.
"""
import json
import sys


def wrong_number(right: str, row: int) -> str:
    digits = [i for i, c in enumerate(right) if c.isdigit()]
    place = digits[row % len(digits)]
    lowest = 1 if place == digits[0] and len(digits) > 1 else 0  # no leading zero
    choices = [d for d in range(lowest, 10) if str(d) != right[place]]
    return right[:place] + str(choices[(7 * row + 3) % len(choices)]) + right[place + 1:]


def main() -> None:
    source, target = sys.argv[1:]
    with open(source) as rows, open(target, "w") as out:
        for row, line in enumerate(rows):
            problem = json.loads(line)
            steps, right = problem["answer"].rsplit("#### ", 1)
            wrong = wrong_number(right, row)
            choices = [right, wrong] if row % 2 == 0 else [wrong, right]
            out.write(json.dumps({"question": problem["question"], "steps": steps + "####", "choices": choices, "gold": row % 2}) + "\n")


if __name__ == "__main__":
    main()
