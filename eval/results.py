"""docs/RESULTS.md from the recorded figures of a whole end-to-end run: results.py [RESULTS.json] prints the page.

eval/e2e.py records docs/RESULTS.json and writes the page through this; tests/tools/eval_scripts_test.py fails when the two disagree.
Adding a kind of run means adding to "runs": every run names its attention row, graph mode and KV cache."""
import json
import pathlib
import sys

RAW_NAME = "RESULTS.json"


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    cells = [[str(cell).replace("|", "/") for cell in row] for row in rows]
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in cells)]


def run_row(run: dict) -> list[str]:
    steps = run["steps"]
    return [f"`{run['attention']}`", run["kv_cache"], f"`{run['graph_mode']}`", f"`{run['runs_as']}`", f"{run['score']:.4f}", str(run["problems"]),
            {None: "(the first)", True: "yes", False: "**no**"}[run.get("same_answers")], f"{steps['NONE']} / {steps['PIECEWISE']} / {steps['FULL']}", f"{run['seconds']:.0f}"]


def render(raw: dict) -> str:
    machine, program = raw["machine"], raw["program"]
    failed = [check["name"] for check in raw["checks"] if not check["passed"]]
    lines = ["# Results",
             f"Written by `{raw['command']}`, which runs every check again; do not edit. The figures are in [{RAW_NAME}]({RAW_NAME}).", "",
             f"* {raw['date']}, {program['version']}, commit `{program['commit']}`, {program['build']} build.",
             f"* {machine['cores']} cores of {machine['cpu']}, {machine['memory_gib']} GiB; load average when the run began {machine['load_average_before']:.1f}"
             + (" (busy with other work: times are longer than on a quiet machine)." if machine["load_average_before"] > 0.5 * machine["cores"] else "."),
             f"* Model `{raw['model']}`, {raw['dtype']}. lm_eval {raw['lm_eval']}: task `gsm_tiny`, 5-shot, greedy, 256 requests at once, strict match.",
             f"* {len(raw['checks']) - len(failed)} checks passed, {len(failed)} failed{': ' + ', '.join(failed) if failed else ''}.", "",
             "## The same answers in every graph mode, by KV cache", "",
             "Each line is a server of its own. \"Same answers\": problem by problem, as the first run with that KV cache. \"Calibrated\": with the scales of twice what a built-in text needs;",
             "such a cache may cost 0.02 of the 16-bit score at most.", ""]
    lines += table(["attention", "KV cache", "graph mode", "runs as", "score", "problems", "same answers", "steps eager / PIECEWISE / FULL", "seconds"],
                   [run_row(run) for run in raw["runs"]])
    lines += ["", "## Every check", ""]
    lines += table(["check", "result", "seconds", "measured"],
                   [[f"`{c['name']}`", "ok" if c["passed"] else "**FAILED**", f"{c['seconds']:.1f}", c["detail"]] for c in raw["checks"]])
    return "\n".join(lines) + "\n"


def main() -> int:
    default = pathlib.Path(__file__).resolve().parent.parent / "docs" / RAW_NAME
    raw = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    sys.stdout.write(render(json.loads(raw.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
