"""llama.cpp's own server beside ours: starts a build of it (tools/llama_cpp/build_tools.sh) on a free port, waits with a bound, never leaves it behind."""
import json
import pathlib
import subprocess
import time
import urllib.request

from server_process import free_port

STEP_SECONDS = 3600
READY_SECONDS = 120


def post(url: str, body: dict) -> dict:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=STEP_SECONDS) as answer:
        return json.load(answer)


class LlamaCppServer:
    """A context manager. `folder`: where llama-server lies; `context`: tokens of all `slots` together."""

    def __init__(self, folder: str, model: str, log: pathlib.Path, *, threads: int = 2, context: int = 4096, slots: int = 1):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = [f"{folder}/llama-server", "-m", model, "--port", str(self.port), "-t", str(threads), "-c", str(context), "-np", str(slots), "--jinja"]
        with open(log, "w") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def __enter__(self):
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _wait(self) -> None:
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise ValueError(f"llama-server ended with status {self.process.returncode}")
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                pass
            time.sleep(0.1)
        raise ValueError(f"llama-server was not ready within {READY_SECONDS} s")

    def post(self, path: str, body: dict) -> dict:
        return post(self.url + path, body)
