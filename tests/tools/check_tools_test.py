"""The tree checkers find what they are for: each rule is broken once in a made-up tree."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(tool: str, tree: dict[str, str], *arguments: str) -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in tree.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        done = subprocess.run([sys.executable, str(ROOT / "tools" / tool), *arguments, folder], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


class Includes(unittest.TestCase):
    def check(self, files: dict[str, str], wanted: str | None):
        table = (ROOT / "tools" / "include_arrows.txt").read_text()
        status, out = run("check_includes.py", {"tools/include_arrows.txt": table, **files})
        if wanted is None:
            self.assertEqual(status, 0, out)
        else:
            self.assertEqual(status, 1, out)
            self.assertIn(wanted, out)

    def test_allowed_arrow(self):
        self.check({"src/scheduler/a.cc": '#include "kv/policy/b.h"\n', "src/kv/policy/b.h": ""}, None)

    def test_forbidden_arrow(self):
        self.check({"src/scheduler/a.cc": '#include "model/b.h"\n', "src/model/b.h": ""}, "src/scheduler/a.cc includes model/b.h")

    def test_one_header_is_not_its_folder(self):
        self.check({"src/api/a.cc": '#include "engine/engine_loop.h"\n', "src/engine/engine_loop.h": ""}, "src/api/a.cc includes engine/engine_loop.h")

    def test_sibling_room_is_not_included_by_its_parent_name(self):
        self.check({"src/kv/policy/a.h": '#include "kv/store/b.h"\n', "src/kv/store/b.h": ""}, "src/kv/policy/a.h includes kv/store/b.h")

    def test_device_behind_another_header(self):
        self.check({"src/scheduler/a.cc": '#include "config/resolved.h"\n', "src/config/resolved.h": '#include "device/profile.h"\n',
                    "src/device/profile.h": ""}, "src/scheduler/a.cc reaches device/profile.h through src/config/resolved.h")

    def test_reference_only_in_doctor(self):
        files = {"reference/norm.h": "", "src/commands/doctor.cc": '#include "reference/norm.h"\n'}
        self.check(files, None)
        self.check({**files, "src/commands/serve.cc": '#include "reference/norm.h"\n'}, "src/commands/serve.cc includes reference/norm.h")

    def test_json_at_the_edges(self):
        self.check({"src/runner/a.cc": "#include <boost/json/value.hpp>\n"}, "may include boost/json*")
        self.check({"src/api/a.cc": "#include <boost/json/value.hpp>\n"}, None)

    def test_vendor_header(self):
        self.check({"src/ops/a.cc": "#include <cuda_runtime_api.h>\n"}, "may include cuda*")
        self.check({"src/device/cuda/a.cc": "#include <cuda_runtime_api.h>\n"}, None)

    def test_room_without_a_row(self):
        self.check({"src/newroom/a.cc": ""}, "has no row")

    def test_comment_is_not_an_include(self):
        self.check({"src/scheduler/a.cc": '/*\n#include "model/b.h"\n*/\n// x\n', "src/model/b.h": ""}, None)


class Tree(unittest.TestCase):
    def check(self, kind: str, files: dict[str, str], wanted: str | None):
        status, out = run("check_tree.py", files, kind)
        self.assertEqual(status, 0 if wanted is None else 1, out)
        if wanted:
            self.assertIn(wanted, out)

    def test_output(self):
        for line in ("std::cout << 1;", "printf(\"x\");", "std::fputs(text, stdout);", "::write(STDOUT_FILENO, a, n);", "write(1, a, n);", "puts(text);", "std::println(\"x\");"):
            self.check("output", {"src/a/a.cc": "void f() {\n  " + line + "\n}\n"}, "src/a/a.cc:2: '")
        self.check("output", {"src/text/ffi/src/a.rs": "fn f() { println!(\"x\"); }\n"}, "src/text/ffi/src/a.rs:1: ")
        harmless = "// stdout\nstd::fprintf(stderr, \"stdout %d\", 1); snprintf(a, n, \"\"); f.write(1, 2); imprint(1); /* puts(x) */\n"
        self.check("output", {"src/a/a.cc": harmless, "src/commands/console.cc": "::write(STDOUT_FILENO, a, n);\n", "tests/a.cc": "puts(x);\n"}, None)

    def test_budgets(self):
        long_function = "int f() {\n" + "  x();\n" * 90 + "}\n"
        self.check("budgets", {"src/a/a.cc": long_function}, "src/a/a.cc:1: function of 92 lines")
        self.check("budgets", {"src/a/a.cc": "int f();\n" * 451}, "451 lines, the limit is 450")
        self.check("budgets", {"src/a/a.h": "int f();\n" * 301}, "301 lines, the limit is 300")
        self.check("budgets", {"src/a/a.cc": "int f();\n" * 400, "tests/a.cc": "int f();\n" * 4000}, None)

    def test_paths(self):
        self.check("paths", {"a.sh": "cat /" + "root/x\n"}, "absolute path")
        self.check("paths", {"a.cmake": "https://py" + "pi.org/simple\n"}, "registry host")
        self.check("paths", {"a.sh": 'cat "$HOME/x" /dev/null src/work/x\n'}, None)

    def test_links(self):
        self.check("links", {"a.md": "[b](docs/b.md)\n"}, "no such file")
        self.check("links", {"a.md": "[b](b.md#two)\n", "b.md": "# One\n"}, "no heading 'two'")
        self.check("links", {"a.md": "see `src/gone.cc`\n"}, "no such file")
        self.check("links", {"a.md": "[b](b.md#one-two) and `b.md`\n", "b.md": "# One two\n"}, None)


class Dependencies(unittest.TestCase):
    """What CMake asks for is what setup.sh installs and LICENSES.md names."""
    PACKAGES = {"Threads": None, "PkgConfig": ("pkg-config", "pkg-config"), "Boost": ("libboost-json1.81-dev", "Boost.JSON"),
                "spdlog": ("libspdlog-dev", "spdlog"), "hwy": ("libhwy-dev", "Highway"),
                "libyaml": ("libyaml-dev", "libyaml"), "prometheus_cpp": ("prometheus-cpp-dev", "prometheus-cpp"),
                "GTest": ("libgtest-dev", "GoogleTest"), "benchmark": ("libbenchmark-dev", "Google Benchmark"), "Python3": ("python3", "Python")}

    def test_packages(self):
        setup, licenses = (ROOT / "tools" / "setup.sh").read_text(), (ROOT / "LICENSES.md").read_text()
        files = [p for top in ("cmake", "src", "reference", "tests", "bench") for p in (ROOT / top).rglob("*") if p.name == "CMakeLists.txt" or p.suffix == ".cmake"]
        asked = {name for p in files for name in re.findall(r"^\s*(?:find_package|pkg_check_modules)\((\w+)", p.read_text(), flags=re.M)}
        self.assertIn("spdlog", asked)
        for name in sorted(asked):
            self.assertIn(name, self.PACKAGES, f"{name}: add its package to tools/setup.sh, its licence to LICENSES.md and both here")
            if self.PACKAGES[name]:
                package, title = self.PACKAGES[name]
                self.assertRegex(setup, rf"[( ]{re.escape(package)}[) \n]", f"tools/setup.sh does not install {package}")
                self.assertIn(title, licenses)


if __name__ == "__main__":
    unittest.main()
