"""The random clients of eval/soak.py: each kind a thread function that does one thing and says what came of it."""
import collections
import http.client
import json
import random
import socket
import threading
import time

import load

SECONDS = 120  # a bound for hanging
WORDS = "Ada Tom has buys sells apples pears more than 3 7 12 how many does he she have left in all the basket each day".split()

# (raw bytes of a whole request, or the body for /v1/completions) and the statuses that answer it; 0: the connection may end without one.
JSON_HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
BAD_RAW = [
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", (400, 0)),
    (b"GET\r\n\r\n", (400,)),
    (b"GET /health HTTP/9.9\r\nHost: x\r\n\r\n", (400, 505)),
    (b"GET /health HTTP/1.1\r\n\r\n", (400,)),
    (b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", (400,)),
    (b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", (404,)),
    (b"DELETE /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n", (405,)),
    (b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", (431, 400, 0)),
    (JSON_HEAD + b"Content-Length: 99999999999\r\n\r\n{", (413,)),
    (JSON_HEAD + b"Content-Length: -5\r\n\r\n{", (400,)),
    (JSON_HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", (400,)),
    (JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", (400,)),
    (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", (400,)),
]
BAD_BODIES = [b"", b"{", b"[]", b"null", b'{"prompt": nan}', b"\xff\xfe{}", b'{"prompt":' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"prompt": 5}', b'{"prompt": []}', b'{"prompt": [-1]}',
              b'{"prompt": [999999999]}', b'{"prompt": "a", "max_tokens": -1}', b'{"prompt": "a", "max_tokens": 1e9}', b'{"prompt": "a", "n": 100000}', b'{"prompt": "a", "temperature": "hot"}',
              b'{"prompt": "a", "temperature": -3}', b'{"prompt": "a", "top_p": 7}', b'{"prompt": "a", "model": "other"}', b'{"prompt": "a", "stop": [1]}', b'{"prompt": "a", "logit_bias": {"x": 1}}',
              b'{"prompt": "a", "stream": "yes"}', b'{"prompt": "a", "response_format": {"type": "json_object"}}', b'{"messages": []}', b'{"prompt": "' + b"word " * 5000 + b'"}']


def status_of(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def request(rng: random.Random, most_tokens: int) -> tuple[str, dict]:
    text = " ".join(rng.choice(WORDS) for _ in range(rng.choice((1, 5, 20, 120))))
    body: dict = {"max_tokens": rng.randint(1, most_tokens), "temperature": rng.choice((0, 0, 0.7, 1.5)), "stream": rng.random() < 0.5}
    extras = {"n": rng.randint(1, 4), "stop": [rng.choice(WORDS)], "logprobs": rng.randint(0, 5), "ignore_eos": True, "seed": rng.randint(0, 99), "presence_penalty": 0.5, "top_k": 20, "min_tokens": 1, "echo": True,
              "logit_bias": {"5": -3}, "bad_words": ["apples"], "prompt_logprobs": 1}
    for name in rng.sample(sorted(extras), rng.randint(0, 3)):
        body[name] = extras[name]
    if body["stream"]:
        body.pop("prompt_logprobs", None)
    if body["temperature"] == 0:
        body.pop("n", None)  # greedy samples would be equal, which is refused
    if rng.random() < 0.5:
        if body.get("logprobs") is not None:
            body["top_logprobs"], body["logprobs"] = body["logprobs"], True
        return "/v1/chat/completions", {**body, "messages": [{"role": "user", "content": text}]}
    return "/v1/completions", {**body, "prompt": text if rng.random() < 0.8 else [text, "Tom has"]}


def asks(port: int, rng: random.Random) -> str:
    """Wants its whole answer, and gets it, or is told that the server is full."""
    answer = load.ask(port, *request(rng, 60), SECONDS)
    if answer.outcome == load.WHOLE or (answer.outcome == load.ERROR and answer.status in (429, 503)):
        return "whole" if answer.outcome == load.WHOLE else "refused for load"
    return f"wrong: {answer.outcome} {answer.status} {answer.detail or answer.text[:200]}"


def leaves(port: int, rng: random.Random) -> str:
    """Goes away in the middle: of its request, while it waits, or while it reads; politely or with a reset."""
    path, body = request(rng, 900)
    connection = load.Connection(port, SECONDS)
    try:
        where = rng.choice(("request", "wait", "read", "read"))
        if where == "request":
            connection.connect()
            connection.sock.sendall(JSON_HEAD + b"Content-Length: 500\r\n\r\n" + b"{" * rng.randint(0, 300))
        else:
            body["stream"] = where == "read"
            body.pop("prompt_logprobs", None)
            if where == "wait":
                raw = json.dumps(body).encode()
                connection.connect()
                connection.sock.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n".encode() + raw)
            else:
                lines = load.lines_of(connection.post(path, body))
                for _ in zip(range(rng.randint(0, 60)), lines):
                    pass
        time.sleep(rng.choice((0, 0, 0.02, 0.3)))
        if rng.random() < 0.5:
            connection.reset()
        return f"left in the {where}" if where == "request" else f"left in the {where}ing"
    finally:
        connection.close()


def reads_slowly(port: int, rng: random.Random) -> str:
    """Takes a few bytes at a time, or none at all until the server cuts it off."""
    connection = load.Connection(port, SECONDS, receive_bytes=2048)
    try:
        body = {"prompt": "Tom has", "max_tokens": 900, "ignore_eos": True, "n": 4, "temperature": 1, "logprobs": 5, "stream": True}
        response = connection.post("/v1/completions", body)
        if response.status != 200:
            return "refused for load" if response.status in (429, 503) else f"wrong: {response.status}"
        never, until = rng.random() < 0.5, time.monotonic() + rng.randint(5, 15)
        while time.monotonic() < until:
            time.sleep(0.25)
            if not never and not response.fp.read1(rng.randint(1, 300)):
                return "read slowly to the end"
        return "never read" if never else "read slowly and left"
    finally:
        connection.close()


def breaks_rules(port: int, rng: random.Random) -> str:
    """Each kind of bad request has its answer."""
    if rng.random() < 0.5:
        answer = load.ask(port, "/v1/completions", rng.choice(BAD_BODIES), SECONDS)
        return "refused" if answer.outcome == load.ERROR and (400 <= answer.status < 500 or answer.status == 503) else f"wrong: {answer}"[:400]
    raw, statuses = rng.choice(BAD_RAW)
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as s:
        try:
            s.sendall(raw)
            s.shutdown(socket.SHUT_WR) if rng.random() < 0.2 else None
            head = s.recv(4096)
        except ConnectionError:
            head = b""
    status = int(head.split()[1]) if head.startswith(b"HTTP/1.1 ") else 0
    return "refused" if status in (*statuses, 503) or status == 0 and not head else f"wrong: {status} for {raw[:80]!r}"


KINDS = {"asks": (asks, 8), "leaves": (leaves, 6), "reads_slowly": (reads_slowly, 4), "breaks_rules": (breaks_rules, 3)}


class Clients:
    """Threads of every kind until `over`. counts: what came of them; wrong: what must not have."""

    def __init__(self, port: int, seed: int, over: threading.Event):
        self.port, self.over = port, over
        self.counts = {kind: collections.Counter() for kind in KINDS}
        self.wrong: dict[str, list[str]] = {kind: [] for kind in KINDS}
        self.lock = threading.Lock()
        self.ended_early: list[str] = []
        self.threads = [threading.Thread(target=self.run, args=(kind, random.Random(f"{seed} {kind} {i}"))) for kind, (_, number) in KINDS.items() for i in range(number)]

    def run(self, kind: str, rng: random.Random):
        try:
            self.loop(kind, rng)
        finally:
            if not self.over.is_set():
                with self.lock:
                    self.ended_early.append(kind)

    def loop(self, kind: str, rng: random.Random):
        act, _ = KINDS[kind]
        while not self.over.is_set():
            try:
                what = act(self.port, rng)
            except (OSError, http.client.HTTPException) as error:
                # Of the server's cutting off or of too many connections; a client that wants its answer (asks) never gets here.
                what = f"ended by {type(error).__name__}"
            except Exception as error:  # an answer that no client understands must not end the client unheard
                what = f"wrong: {type(error).__name__}: {error}"
            with self.lock:
                if what.startswith("wrong"):
                    self.wrong[kind].append(what)
                else:
                    self.counts[kind][what] += 1
            self.over.wait(rng.choice((0, 0.01, 0.2)))
