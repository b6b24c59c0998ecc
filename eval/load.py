"""Requests as a client under load sees them: what became of each, told apart. Standard library alone."""
import dataclasses
import http.client
import json
import socket
import struct

# WHOLE: all of the answer. ERROR: a whole answer that says what is wrong (a status with an error object, or an error event that ends a
# stream). NONE: the connection was refused, or closed before a byte of an answer. CUT: anything less.
WHOLE, ERROR, NONE, CUT = "whole", "error", "none", "cut"


@dataclasses.dataclass
class Answer:
    outcome: str
    status: int = 0
    text: str = ""    # the body; of a stream, its events' lines
    detail: str = ""  # why it is not whole


def judge_json(status: int, text: str) -> Answer:
    try:
        body = json.loads(text)
    except ValueError:
        return Answer(CUT, status, text, "no JSON")
    if status == 200:
        return Answer(WHOLE, status, text)
    good = isinstance(body, dict) and isinstance(body.get("error"), dict) and body["error"].get("message") and body["error"].get("code") == status
    return Answer(ERROR if good else CUT, status, text, body["error"]["message"] if good else "no error object")


def judge_stream(status: int, lines: list[str]) -> Answer:
    text = "\n".join(lines)
    events = [line[6:] for line in lines if line.startswith("data: ")]
    if not events or events[-1] != "[DONE]":
        return Answer(CUT, status, text, "no [DONE]")
    try:
        errors = [body["error"]["message"] for body in map(json.loads, events[:-1]) if body.get("error") is not None]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return Answer(CUT, status, text, f"an event that is none: {type(error).__name__}: {error}")
    return Answer(ERROR, status, text, errors[0]) if errors else Answer(WHOLE, status, text)


class Connection(http.client.HTTPConnection):
    """To 127.0.0.1; with a small receive buffer on demand, and an abrupt end."""

    def __init__(self, port: int, seconds: float, receive_bytes: int = 0):
        super().__init__("127.0.0.1", port, timeout=seconds)
        self.receive_bytes = receive_bytes

    def connect(self):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if self.receive_bytes:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_bytes)
        self.sock.settimeout(self.timeout)
        self.sock.connect((self.host, self.port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, path: str, body: dict | bytes) -> http.client.HTTPResponse:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.request("POST", path, raw, {"Content-Type": "application/json"})
        return self.getresponse()

    def reset(self):
        """Ends with a reset instead of a polite close."""
        if self.sock is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()


def lines_of(response: http.client.HTTPResponse):
    """Of an event stream; raises http.client.IncompleteRead when it is cut."""
    while True:
        line = response.readline()
        if not line:
            # http.client takes a missing last chunk for the end of some streams: ask once more.
            response.read()
            return
        yield line.decode().rstrip("\n")


def ask(port: int, path: str, body: dict | bytes, seconds: float = 120) -> Answer:
    """One request on a connection of its own, to its end."""
    connection, status, begun = Connection(port, seconds), 0, False
    try:
        response = connection.post(path, body)
        status, begun = response.status, True
        if response.headers.get_content_type() == "text/event-stream":
            return judge_stream(status, [line for line in lines_of(response) if line])
        return judge_json(status, response.read().decode())
    except UnicodeDecodeError as error:
        return Answer(CUT, status, "", f"no UTF-8: {error}")
    except (OSError, http.client.HTTPException) as error:
        timed_out = isinstance(error, TimeoutError)
        return Answer(CUT if begun or timed_out else NONE, status, "", f"{type(error).__name__}: {error}")
    finally:
        connection.close()
