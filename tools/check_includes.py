#!/usr/bin/env python3
"""Checks every #include under src/, reference/ and tests/ against tools/include_arrows.txt.

check_includes.py [ROOT]: prints one line per broken arrow and a summary; exit status 1 when there is one, 2 when the table is wrong.
"""
import dataclasses
import functools
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.M)
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".hip", ".inc"}


def strip_comments(text: str) -> str:
    """Blanks comments so that an include inside one does not count; strings that hold // stay whole (includes are such strings)."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
    return pattern.sub(lambda m: m.group(0) if m.group(0).startswith('"') else "\n" * m.group(0).count("\n"), text)


def under(path: str, prefix: str) -> bool:
    """True when `path` is `prefix`, lies in it, or (prefix names a file without suffix) begins with it."""
    return path == prefix or path.startswith(prefix + "/") or path.startswith(prefix + ".") or path.startswith(prefix + "_")


@dataclasses.dataclass
class Table:
    rooms: dict[str, list[str]]
    pure: list[tuple[str, list[str]]]
    only: list[tuple[str, list[str]]]


def read_table(path: pathlib.Path) -> Table:
    table = Table({}, [], [])
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        match = re.fullmatch(r"(room|pure|only) ([^\s:]+):((?:\s+\S+)*)", line)
        if not match:
            sys.exit(f"{path.name}:{number}: expected 'room|pure|only NAME: NAMES...'")
        kind, name, rest = match[1], match[2], match[3].split()
        if kind == "room":
            if name in table.rooms:
                sys.exit(f"{path.name}:{number}: room {name} appears twice")
            table.rooms[name] = rest
        else:
            (table.pure if kind == "pure" else table.only).append((name, rest))
    return table


class Tree:
    def __init__(self, root: pathlib.Path):
        self.root = root
        self.files = {}  # path from root -> included names
        for top in ("src", "reference", "tests"):
            for path in sorted((root / top).rglob("*")):
                name = path.relative_to(root).as_posix()
                if path.suffix in SUFFIXES and path.is_file() and "/target/" not in name:
                    text = strip_comments(path.read_text(encoding="utf-8", errors="replace"))
                    self.files[name] = [a or b for a, b in INCLUDE.findall(text)]

    def resolve(self, source: str, name: str) -> str | None:
        """The project file that `name` means in `source`, or None for an outside header."""
        for base in ("src/", "", "tests/", source.rsplit("/", 1)[0] + "/"):
            if base + name in self.files:
                return base + name
        return None

    @functools.cache
    def reach(self, source: str) -> dict[str, str]:
        """Everything `source` includes, at any depth: name -> the file that includes it. Project files by path, others by name."""
        found, todo = {}, [source]
        while todo:
            current = todo.pop()
            for name in self.files[current]:
                target = self.resolve(current, name)
                key = target or name
                if key not in found:
                    found[key] = current
                    if target:
                        todo.append(target)
        return found


def short(path: str) -> str:
    """Name as the table writes it: without src/."""
    return path.removeprefix("src/")


def room_of(path: str, table: Table) -> str | None:
    return max((room for room in table.rooms if under(path, room)), key=len, default=None)


def allowed(target: str, target_room: str, names: list[str], table: Table) -> bool:
    for name in names:
        if name.startswith("!") and under(short(target), name[1:]):
            return False
    for name in names:
        if name == "*" or short(target) == name:
            return True
        if under(short(target), name) and (short(target_room) == name or not under(short(target_room), name) or name == "kv"):
            return True
    return False


def check_rooms(tree: Tree, table: Table) -> list[str]:
    problems = []
    for source, names in tree.files.items():
        if source.startswith("tests/"):
            continue
        room = room_of(source, table)
        if room is None:
            problems.append(f"{source}: its folder has no row in the table")
            continue
        for name in names:
            target = tree.resolve(source, name)
            if target is None:
                continue
            target_room = room_of(target, table)
            if target.startswith("tests/"):
                problems.append(f"{source} includes {name}: product code may not include tests")
            elif target_room not in (room, "src/base") and not allowed(target, target_room or "", table.rooms[room], table):
                problems.append(f"{source} includes {name}: {short(room)} may include {' '.join(['base', *table.rooms[room]])}")
    return problems


def check_pure(tree: Tree, table: Table) -> list[str]:
    problems = []
    for prefix, names in table.pure:
        banned = [n for n in names if not n.startswith("!")]
        excepted = [n[1:] for n in names if n.startswith("!")]
        for source in (f for f in tree.files if under(f, prefix)):
            for target, via in tree.reach(source).items():
                name = short(target)
                hit = next((b for b in banned if under(name, b) or (b.endswith("/") and name.startswith(b))), None)
                if hit and name not in excepted:
                    through = "" if via == source else f" through {via}"
                    problems.append(f"{source} reaches {name}{through}: {short(prefix)} must not see {hit}")
    return problems


def check_only(tree: Tree, table: Table) -> list[str]:
    problems = []
    for name, places in table.only:
        for source, included in tree.files.items():
            for header in included:
                if header.startswith(name) and not tree_local(tree, source, header, name) and not any(under(source, p) for p in places):
                    problems.append(f"{source} includes {header}: only {' '.join(places)} may include {name}*")
    return problems


def tree_local(tree: Tree, source: str, header: str, name: str) -> bool:
    """An outside library's prefix must not catch a project file of the same beginning (a test's own cuda_fake.h)."""
    target = tree.resolve(source, header)
    return target is not None and not short(target).startswith(name)


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    table = read_table(root / "tools" / "include_arrows.txt")
    tree = Tree(root)
    if not tree.files:
        sys.exit(f"no sources under {root}")
    problems = check_rooms(tree, table) + check_pure(tree, table) + check_only(tree, table)
    for problem in problems:
        print(problem)
    print(f"{len(tree.files)} files, {sum(map(len, tree.files.values()))} includes, {len(problems)} broken arrows")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
