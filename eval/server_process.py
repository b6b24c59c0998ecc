"""One server under test: starts it on a free port, waits for readiness with a bound, stops it with SIGTERM, never leaves it behind."""
import atexit
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

SANITIZER_REPORT = re.compile(r"ERROR: (?:Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error:|QUIRE_CHECK")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class ServerError(Exception):
    pass


class Server:
    """Use as a context manager; leaving it kills the process if stop() was not called. `environment`: variables beside this process's own;
    `port`: a free one when left out; `folder`: where it runs."""

    def __init__(self, binary: pathlib.Path, model: pathlib.Path, log: pathlib.Path, flags: list[str] = (), environment: dict[str, str] | None = None,
                 *, port: int | None = None, folder: pathlib.Path | None = None):
        self.name = "gsm-tiny"
        self.binary, self.model, self.flags = binary, model, list(flags)
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [str(binary), "serve", str(model), "--host", "127.0.0.1", "--port", str(self.port), "--served-model-name", self.name, *flags]
        log.write_text(" ".join(command) + "\n")
        with open(log, "ab") as out:
            try:
                self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=folder, env={**os.environ, **(environment or {})})
            except OSError as error:
                raise ServerError(f"cannot start {binary}: {error}") from error
        atexit.register(self.kill)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def wait_ready(self, seconds: float) -> float:
        """Returns the seconds until /ready answered 200; raises when the process ends or the bound passes."""
        start = time.monotonic()
        while time.monotonic() - start < seconds:
            if self.process.poll() is not None:
                raise ServerError(f"the server ended with status {self.process.returncode} while starting: {self.tail()}")
            try:
                with urllib.request.urlopen(self.url + "/ready", timeout=5) as answer:
                    if answer.status == 200:
                        return time.monotonic() - start
            except (OSError, urllib.error.URLError):
                pass
            time.sleep(0.1)
        raise ServerError(f"not ready after {seconds:.0f} s: {self.tail()}")

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return answer.read().decode()

    def post(self, path: str, body: dict, seconds: float = 120) -> dict:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return json.load(answer)

    def counter_of(self, name: str, labels: dict[str, str]) -> float:
        """One series of a counter: the one with all of these labels."""
        for found, value in re.findall(rf"^{re.escape(name)}{{([^}}]*)}} (\S+)", self.get("/metrics"), re.M):
            if all(f'{key}="{wanted}"' in found for key, wanted in labels.items()):
                return float(value)
        raise ServerError(f"/metrics has no {name} with {labels}")

    def memory_items(self) -> dict[str, int]:
        """Bytes held since start, by item of the memory plan."""
        return {item: int(float(value)) for item, value in re.findall(r'^quire:memory_bytes{[^}]*item="(\w+)"[^}]*} (\S+)', self.get("/metrics"), re.M)}

    def counter(self, name: str) -> float:
        """Sum of a Prometheus counter over its labels; raises when the server does not have it."""
        values = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)", self.get("/metrics"), re.M)
        if not values:
            raise ServerError(f"/metrics has no {name}")
        return sum(map(float, values))

    def stop(self, seconds: float = 60) -> int:
        """SIGTERM, then the exit status; raises when the process outlives the bound."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerError(f"still running {seconds:.0f} s after SIGTERM: {self.tail()}") from None

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def tail(self, lines: int = 5) -> str:
        return " | ".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def reports(self) -> list[str]:
        """Lines of the log in which a sanitizer or an own check speaks."""
        return [line for line in self.log.read_text(errors="replace").splitlines() if SANITIZER_REPORT.search(line)]
