"""A headless Chromium through chromedriver's W3C WebDriver protocol, in the few calls that the page's check needs. Every wait has a bound."""
import base64
import json
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
ENTER, ESCAPE, TAB, SHIFT = "\ue007", "\ue00c", "\ue004", "\ue008"


class PageError(Exception):
    pass


def available() -> bool:
    return shutil.which("chromium") is not None and shutil.which("chromedriver") is not None


class Browser:
    def __init__(self, log: pathlib.Path):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.profile = tempfile.TemporaryDirectory(prefix="quire-page-")
        self.out = open(log, "w")
        self.process = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=self.out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.session = None
        try:
            self._until(lambda: self._call("GET", "/status")["ready"], 30, "chromedriver is ready")
            options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={self.profile.name}",
                                "--window-size=1280,860"]}
            capabilities = {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
            self.session = self._call("POST", "/session", {"capabilities": capabilities}, 90)["sessionId"]
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        if self.session:
            try:
                self._call("DELETE", f"/session/{self.session}", None, 20)
            except (OSError, PageError):
                pass
            self.session = None
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.out.close()
        self.profile.cleanup()

    def _call(self, method: str, path: str, body: dict | None = None, seconds: float = 30):
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise PageError(json.load(error)["value"]["message"].splitlines()[0]) from None

    def _do(self, method: str, path: str, body: dict | None = None, seconds: float = 30):
        return self._call(method, f"/session/{self.session}{path}", body, seconds)

    @staticmethod
    def _until(ready, seconds: float, what: str) -> None:
        end = time.monotonic() + seconds
        while True:
            try:
                if ready():
                    return
            except OSError:
                pass
            if time.monotonic() > end:
                raise PageError(f"not within {seconds:.0f} s: {what}")
            time.sleep(0.05)

    def open(self, url: str) -> None:
        self._do("POST", "/url", {"url": url}, 60)

    def reload(self) -> None:
        self._do("POST", "/refresh", None, 60)

    def js(self, script: str):
        """The value of an expression in the page."""
        return self._do("POST", "/execute/sync", {"script": "return " + script, "args": []})

    def wait(self, script: str, seconds: float, what: str) -> None:
        self._until(lambda: self.js(script), seconds, f"{what}; the page says: {self.problem()}")

    def problem(self) -> str:
        return self.js("[...document.querySelectorAll('.problem:not([hidden])')].map((e) => e.textContent).join(' | ')") or "nothing"

    def keys(self, text: str, held: str = "") -> None:
        """Types into whatever has the focus, as a keyboard does."""
        actions = [{"type": "keyDown", "value": held}] if held else []
        for key in text:
            actions += [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        actions += [{"type": "keyUp", "value": held}] if held else []
        self._do("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def click(self, selector: str) -> None:
        element = self._do("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]
        self._do("POST", f"/element/{element}/click")

    def set_value(self, selector: str, text: str) -> None:
        element = self._do("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]
        self._do("POST", f"/element/{element}/clear")
        self._do("POST", f"/element/{element}/value", {"text": text})

    def size(self, width: int, height: int) -> None:
        """Of the page itself: a window cannot become as narrow as a phone."""
        self.cdp("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def cdp(self, command: str, parameters: dict):
        return self._do("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def console_errors(self) -> list[str]:
        return [entry["message"] for entry in self._do("POST", "/se/log", {"type": "browser"}) if entry["level"] == "SEVERE"]

    def screenshot(self, file: pathlib.Path) -> None:
        file.write_bytes(base64.b64decode(self._do("GET", "/screenshot")))
