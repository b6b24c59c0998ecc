#!/usr/bin/env python3
"""Writes tests/graph/goldens/modes.txt: every request for a graph mode, what vLLM runs and what Quire must run.

make_graph_mode_golden.py [--check] [FILE]     --check: exit status 1 when FILE differs

vLLM's column follows its documented rules (newest version), written here a second time and apart from src/graph: when graphs are chosen, then
when the configuration is built, then against the attention backend. Quire's column is the same, except for the cells of DIFFERENCES, each with
its reason.
"""
import itertools
import pathlib
import sys

DEFAULT_FILE = pathlib.Path(__file__).resolve().parent.parent / "tests/graph/goldens/modes.txt"

# mode -> (what decode batches run, what mixed batches run)
HALVES = {
    "NONE": ("NONE", "NONE"),
    "PIECEWISE": ("PIECEWISE", "PIECEWISE"),
    "FULL": ("FULL", "FULL"),
    "FULL_DECODE_ONLY": ("FULL", "NONE"),
    "FULL_AND_PIECEWISE": ("FULL", "PIECEWISE"),
}
LEVELS = {"NEVER": 0, "UNIFORM_SINGLE_TOKEN_DECODE": 1, "UNIFORM_BATCH": 2, "ALWAYS": 3}


def vllm(asked: str, level: int, split: bool, query_len: int, eager: bool) -> str:
    mode = "FULL_AND_PIECEWISE" if asked == "-" else asked  # the default at -O2
    if eager or mode == "NONE":
        return "NONE"
    # Building the configuration: without a place to split there are no pieces.
    if not split and mode == "PIECEWISE":
        return "NONE"
    if not split and mode == "FULL_AND_PIECEWISE":
        mode = "FULL"
    # Against the backend: mixed batches first.
    if HALVES[mode][1] == "FULL" and level < LEVELS["ALWAYS"]:
        if level == LEVELS["NEVER"]:
            return "error"
        mode = "FULL_AND_PIECEWISE" if split else "FULL_DECODE_ONLY"
    # Then decode batches.
    too_long = query_len > 1 and level < LEVELS["UNIFORM_BATCH"]
    if HALVES[mode][0] == "FULL" and (level == LEVELS["NEVER"] or too_long):
        mode = "PIECEWISE" if split else "NONE"
    return mode


DEFAULT_STARTS = "vLLM first makes it FULL, then refuses FULL; nobody asked for FULL here"


def difference(asked: str, level: int, split: bool, eager: bool) -> tuple[str, str] | None:
    """(Quire's outcome, reason) where it is meant to differ from vLLM's."""
    if asked in ("-", "FULL_AND_PIECEWISE") and level == LEVELS["NEVER"] and not split and not eager:
        return "NONE", DEFAULT_STARTS
    return None


def golden() -> str:
    lines = [
        "# Every request for a graph mode and what runs. Written by tools/make_graph_mode_golden.py; do not edit.",
        "# asked (-: nothing) | support | split at attention | tokens of a decode row | --enforce-eager | quire | vllm | why they differ",
    ]
    asked_modes = ["-", *HALVES]
    for asked, (support, level), split, query_len, eager in itertools.product(asked_modes, LEVELS.items(), (True, False), (1, 3), (False, True)):
        theirs = vllm(asked, level, split, query_len, eager)
        ours, reason = difference(asked, level, split, eager) or (theirs, "")
        if (ours == theirs) != (reason == ""):
            raise SystemExit(f"{asked} {support}: a listed difference that is none")
        cells = [asked, support, "yes" if split else "no", str(query_len), "yes" if eager else "no", ours, theirs, reason]
        lines.append(" | ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def main() -> int:
    arguments = sys.argv[1:]
    check = "--check" in arguments
    names = [a for a in arguments if a != "--check"]
    path = pathlib.Path(names[0]) if names else DEFAULT_FILE
    text = golden()
    if not check:
        path.write_text(text)
        return 0
    if not path.is_file() or path.read_text() != text:
        print(f"{path}: differs from what tools/make_graph_mode_golden.py writes")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
