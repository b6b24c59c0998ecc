#!/usr/bin/env python3
"""Checks of the tree that no compiler makes: check_tree.py budgets|paths|links|output [ROOT]. Exit status 1 when something is wrong.

budgets  lines per file and per function of src/ and reference/: a report of what is over the house's aim, an error over the hard limit
paths    no absolute path of one machine and no package registry's host name in any text file
links    every relative link, and every file named in backquotes, of the Markdown files exists
output   only src/commands/console.cc writes standard output: results go out whole and their write errors end the command
"""
import pathlib
import re
import subprocess
import sys

# (aim, hard limit) in lines; tables are exempt from none of them because a table that long wants its own file.
FILE_LIMITS = {".h": (300, 300), ".cc": (400, 450), ".cu": (400, 450), ".rs": (400, 450)}
FUNCTION_LIMITS = (60, 80)

# Split so that this file does not hold what it looks for.
MACHINE_PATHS = re.compile(r"(?<![\w./$}>-])/(?:" + "|".join(["work", "root", "home", "opt", "mnt", "Users"]) + r")/[\w.]")
REGISTRIES = re.compile("|".join(["py" + r"pi\.org", "python" + r"hosted\.org", "crates" + r"\.io", "hugging" + r"face\.co", "deb\\.deb" + r"ian\.org",
                                  "npm" + r"js\.(?:org|com)", "docker" + r"\.(?:io|com)", "gh" + r"cr\.io", "proxy\\.go" + r"lang\.org"]))
# A lock file names each crate's source in cargo's own fixed words; licence texts carry their authors' addresses.
PATHS_EXEMPT = re.compile(r"(^|/)(Cargo\.lock|LICENSE[^/]*)$|^eval/data/|\.(safetensors|json|jsonl)$")

TREE_PREFIXES = ("src/", "reference/", "tests/", "tools/", "eval/", "docs/", "cmake/", "bench/", "models/", ".ci/")


def tracked(root: pathlib.Path) -> list[str]:
    """Files git knows or would add; every file when `root` is not a checkout (a release archive)."""
    try:
        out = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True, check=True).stdout
        names = [n for n in out.decode().split("\0") if n]
    except (OSError, subprocess.CalledProcessError):
        names = [p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()]
    return sorted(n for n in names if not n.startswith("build/") and (root / n).is_file())


def read(path: pathlib.Path) -> str | None:
    raw = path.read_bytes()
    return None if b"\0" in raw[:8192] else raw.decode("utf-8", errors="replace")


def functions(lines: list[str]):
    """(first line number, length) of each function at namespace scope; clang-format puts its braces in column 0."""
    start = None
    for number, line in enumerate(lines, 1):
        if start is None:
            if re.match(r"[A-Za-z_~:<\[]", line) and not re.match(r"(?:namespace|using|typedef|extern|public|private|protected)\b", line):
                start = number
        if start is not None and (line.rstrip().endswith(";") and not line.startswith((" ", "}")) or line.startswith("}")):
            if line.startswith("}") and not line.startswith("};"):
                yield start, number - start + 1
            start = None


def check_budgets(root: pathlib.Path) -> list[str]:
    errors = []
    for name in tracked(root):
        limits = FILE_LIMITS.get(pathlib.PurePath(name).suffix)
        if not limits or not name.startswith(("src/", "reference/")):
            continue
        lines = (root / name).read_text(errors="replace").splitlines()
        if len(lines) > limits[1]:
            errors.append(f"{name}: {len(lines)} lines, the limit is {limits[1]}")
        elif len(lines) > limits[0]:
            print(f"note: {name}: {len(lines)} lines, the aim is {limits[0]}")
        if name.endswith(".rs"):
            continue
        for start, length in functions(lines):
            if length > FUNCTION_LIMITS[1]:
                errors.append(f"{name}:{start}: function of {length} lines, the limit is {FUNCTION_LIMITS[1]}")
            elif length > FUNCTION_LIMITS[0]:
                print(f"note: {name}:{start}: function of {length} lines, the aim is {FUNCTION_LIMITS[0]}")
    return errors


def check_paths(root: pathlib.Path) -> list[str]:
    errors = []
    for name in tracked(root):
        if PATHS_EXEMPT.search(name) or (text := read(root / name)) is None:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for pattern, what in ((MACHINE_PATHS, "absolute path"), (REGISTRIES, "registry host")):
                if match := pattern.search(line):
                    errors.append(f"{name}:{number}: {what} '{match.group(0)}'")
    return errors


def anchor(heading: str) -> str:
    """The fragment that the usual Markdown renderers give a heading."""
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def declared_rooms(root: pathlib.Path) -> set[str]:
    """Rooms of the arrow table: documents may speak of one before its first file."""
    table = root / "tools" / "include_arrows.txt"
    return set(re.findall(r"^room (\S+):", table.read_text(), flags=re.M)) if table.exists() else set()


def check_links(root: pathlib.Path) -> list[str]:
    errors, rooms = [], declared_rooms(root)
    for name in (n for n in tracked(root) if n.endswith(".md")):
        text = re.sub(r"^```.*?^```", "", (root / name).read_text(), flags=re.S | re.M)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, fragment = target.partition("#")
            file = (root / name).parent / path if path else root / name
            if not file.exists():
                errors.append(f"{name}: link to {target}: no such file")
            elif fragment and file.suffix == ".md":
                anchors = {anchor(h) for h in re.findall(r"^#+\s+(.*)$", file.read_text(), flags=re.M)}
                if fragment not in anchors:
                    errors.append(f"{name}: link to {target}: no heading '{fragment}'")
        for quoted in re.findall(r"`([^`\s]+)`", text):
            if quoted.startswith(TREE_PREFIXES) and quoted not in rooms and not re.search(r"[*{}<>$]|\.\.\.|[A-Z]{3,}/", quoted) and not (root / quoted.split(":")[0]).exists():
                errors.append(f"{name}: `{quoted}`: no such file")
    return errors


OUTPUT_WRITER = "src/commands/console.cc"
BUILD_SCRIPT = "src/text/ffi/build.rs"  # talks to cargo, and is in no program
# Whatever names the stream, its descriptor, or writes to it without a name.
OUTPUT_WORDS = re.compile(r"\b(?:STDOUT_FILENO|stdout|cout|wcout|v?printf|puts|putchar|print(?:ln)?!)(?![\w])|\bstd::print(?:ln)?\b|(?<![.>])\b(?:write|dprintf)\(\s*1\s*,")


def without_comments(text: str) -> str:
    """Comments and the contents of strings made empty; line numbers stay."""
    kept = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
    return kept.sub(lambda m: '""' if m.group(0).startswith('"') else "\n" * m.group(0).count("\n"), text)


def check_output(root: pathlib.Path) -> list[str]:
    errors = []
    for name in tracked(root):
        if not name.startswith(("src/", "reference/")) or pathlib.PurePath(name).suffix not in FILE_LIMITS or name in (OUTPUT_WRITER, BUILD_SCRIPT):
            continue
        for number, line in enumerate(without_comments((root / name).read_text(errors="replace")).splitlines(), 1):
            if match := OUTPUT_WORDS.search(line):
                errors.append(f"{name}:{number}: '{match.group(0)}': standard output is written by {OUTPUT_WRITER} alone")
    return errors


def main() -> int:
    checks = {"budgets": check_budgets, "paths": check_paths, "links": check_links, "output": check_output}
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in checks:
        sys.exit(f"usage: check_tree.py {'|'.join(checks)} [ROOT]")
    root = pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else pathlib.Path(__file__).resolve().parent.parent)
    errors = checks[sys.argv[1]](root)
    print("\n".join([*errors, f"{sys.argv[1]}: {len(errors)} errors"]))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
