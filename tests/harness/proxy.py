"""An HTTP proxy on loopback between the engine and an S3 server that counts and breaks requests.

The Host header is forwarded unchanged, so signatures made for the proxy's address stay valid. For each
request, the first rule (Fault) whose `matches` returns true acts on it.

Threads: one per client connection; counters and rules are guarded by `_lock`.
"""

from __future__ import annotations

import collections
import contextlib
import io
import socket
import socketserver
import struct
import threading
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from harness.s3 import S3Client

CHUNK_BYTES = 256 * 1024


@dataclass
class Request:
    """The head of one request, as the rules see it. The names in `headers` are in lower case."""

    method: str
    target: str
    headers: dict[str, str]

    @property
    def kind(self) -> str:
        """Returns get, head, put, delete, post or list, as the price lists of providers count them."""
        query = self.target.partition("?")[2]
        if self.method == "GET" and ("list-type=" in query or "prefix=" in query or "uploads" in query):
            return "list"
        return self.method.lower()


class Stop:
    """Keeps requests in the proxy until the test decides whether they go on. Meanwhile the test can kill the
    server.

    With `landed`, the store has carried out the request and answered, but the sender has not got the answer.
    Otherwise the store has not got the request, and may get it long after its sender has died.
    """

    def __init__(self, landed: bool = False):
        self.landed = landed
        self.targets: list[str] = []
        self._reached = threading.Event()
        self._decided = threading.Event()
        self._goes_on = False

    def wait(self, timeout_s: float = 60) -> str:
        """Waits for the first request; returns its target. Errors: TimeoutError."""
        if not self._reached.wait(timeout_s):
            raise TimeoutError(f"no such request within {timeout_s} s")
        return self.targets[0]

    def release(self) -> None:
        """Lets the kept requests, and all later ones, go on."""
        self._goes_on = True
        self._decided.set()

    def cut(self) -> None:
        """Cuts the connections of the kept requests, and of all later ones."""
        self._decided.set()

    def keep(self, target: str) -> None:
        """Called by the proxy: keeps the request. Errors: _Disconnected when the test calls cut()."""
        self.targets.append(target)
        self._reached.set()
        self._decided.wait()
        if not self._goes_on:
            raise _Disconnected


@dataclass
class Fault:
    """A rule: which requests it matches, and what the proxy does with them. Normally exactly one action is
    set.

    Units: delay in seconds; `times` is how often the rule acts (None: always).
    """

    matches: Callable[[Request], bool] = lambda _request: True
    delay_s: float = 0
    status: int = 0  # answer this without forwarding
    code: str = ""  # S3 error code of that answer
    drop_reply: bool = False  # forward, then cut the connection instead of answering
    cut: bool = False  # cut the connection without forwarding
    stop: Stop | None = None  # keep the request until the test decides
    damage: bool = False  # forward, with one bit of the request's body flipped
    unconditional: S3Client | None = None  # send a PUT by this client, without If-None-Match
    looks_first: S3Client | None = (
        None  # send a create-only PUT by this client, which checks for the object and writes 2 ms later
    )
    times: int | None = None
    acted: int = field(default=0, init=False)


class _Disconnected(Exception):
    """The client or the store has closed its connection, or a fault cuts it. The client sees a reset."""


class _Stream:
    """Buffered reads from a socket: heads by line, bodies by length."""

    def __init__(self, connection: socket.socket):
        self.connection = connection
        self._file = cast(io.BufferedReader, connection.makefile("rb", buffering=CHUNK_BYTES))

    def line(self) -> bytes:
        line = self._file.readline(65536)
        if not line:
            raise _Disconnected
        return line

    def exactly(self, size: int):
        while size > 0:
            piece = self._file.read1(min(size, CHUNK_BYTES))
            if not piece:
                raise _Disconnected
            size -= len(piece)
            yield piece

    def rest(self):
        while piece := self._file.read1(CHUNK_BYTES):
            yield piece

    def head(self) -> tuple[str, dict[str, str], list[tuple[str, str]]]:
        first = self.line().decode("latin1").strip()
        pairs = []
        while (line := self.line().decode("latin1").rstrip("\r\n")) != "":
            name, _, value = line.partition(":")
            pairs.append((name, value.strip()))
        return first, {name.lower(): value for name, value in pairs}, pairs

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self.connection.close()


def _body(stream: _Stream, headers: dict[str, str]):
    """Yields the body as it is sent over the connection (a chunked body stays encoded)."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while True:
            size_line = stream.line()
            yield size_line
            size = int(size_line.split(b";")[0], 16)
            if size == 0:
                while (line := stream.line()) != b"\r\n":
                    yield line
                yield b"\r\n"
                return
            yield from stream.exactly(size + 2)
    else:
        yield from stream.exactly(int(headers.get("content-length", 0)))


class FaultProxy:
    """Forwards 127.0.0.1:port to `upstream` ("host:port"). `down()` and `up()` cut the whole bucket."""

    def __init__(self, upstream: str):
        host, _, port = upstream.partition(":")
        self._upstream = (host, int(port))
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._is_down = False
        self._open: set[socket.socket] = set()
        self.requests: collections.Counter[str] = collections.Counter()
        self.bytes_up = 0
        self.bytes_down = 0
        self._server = _ThreadedServer(("127.0.0.1", 0), self._serve)
        self.endpoint = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._cut_all()

    def add(self, fault: Fault) -> Fault:
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear(self) -> list[Fault]:
        """Removes all faults and returns them. Requests that a Stop keeps are still kept."""
        with self._lock:
            faults, self._faults = self._faults, []
        return faults

    def down(self) -> None:
        """From now on resets every connection, including those that are open."""
        self._is_down = True
        self._cut_all()

    def up(self) -> None:
        self._is_down = False

    def counts(self) -> dict[str, int]:
        """Returns the number of requests so far by kind."""
        with self._lock:
            return dict(self.requests)

    def reset_counts(self) -> None:
        with self._lock:
            self.requests.clear()
            self.bytes_up = self.bytes_down = 0

    # ---- inner --------------------------------------------------------------------------------------

    def _cut_all(self) -> None:
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _serve(self, connection: socket.socket) -> None:
        client, server, is_complete = _Stream(connection), None, False
        with self._lock:
            self._open.add(connection)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while not self._is_down:
                first, headers, pairs = client.head()
                if server is None:
                    server = _Stream(socket.create_connection(self._upstream, timeout=120))
                    server.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                is_complete = not self._one(client, server, first, headers, pairs)
                if is_complete:
                    return
        except (_Disconnected, OSError, ValueError):
            pass
        finally:
            with self._lock:
                self._open.discard(connection)
            if not is_complete:
                _reset(connection)
            client.close()
            if server is not None:
                server.close()

    def _one(
        self,
        client: _Stream,
        server: _Stream,
        first: str,
        headers: dict[str, str],
        pairs: list[tuple[str, str]],
    ) -> bool:
        """Handles one request. Returns whether another request may follow on this connection: not after an
        answer without a length, because the end of the connection marks its end."""
        method, target, _ = first.split(" ", 2)
        request = Request(method, target, headers)
        fault = self._choose(request)
        if fault.delay_s:
            time.sleep(fault.delay_s)
        if fault.cut or self._is_down:
            raise _Disconnected
        if "expect" in headers:
            client.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if fault.status:
            for _ in _body(client, headers):
                pass
            client.connection.sendall(_error_answer(fault, method))
            return True
        if fault.unconditional or fault.looks_first:
            content = b"".join(_body(client, headers))
            client.connection.sendall(_put_for(fault, target, content))
            return True
        body = _body(client, headers)
        if fault.stop and not fault.stop.landed:
            body = list(body)  # read all of it, because the sender may be dead when the request goes on
            fault.stop.keep(target)
        kept = [f"{name}: {value}" for name, value in pairs if name.lower() != "expect"]
        server.connection.sendall(("\r\n".join([first, *kept]) + "\r\n\r\n").encode("latin1"))
        damage_next = fault.damage
        for piece in body:
            server.connection.sendall(_with_a_flipped_bit(piece) if damage_next else piece)
            damage_next = False
            self.bytes_up += len(piece)
        return self._answer(client, server, request, fault)

    def _answer(self, client: _Stream, server: _Stream, request: Request, fault: Fault) -> bool:
        first, headers, pairs = server.head()
        if fault.drop_reply:
            raise _Disconnected
        if fault.stop and fault.stop.landed:
            fault.stop.keep(request.target)
        head = "\r\n".join([first, *(f"{name}: {value}" for name, value in pairs)]) + "\r\n\r\n"
        client.connection.sendall(head.encode("latin1"))
        status = int(first.split()[1])
        if request.method == "HEAD" or status in (204, 304):
            return True
        endless = "content-length" not in headers and "transfer-encoding" not in headers
        for piece in server.rest() if endless else _body(server, headers):
            client.connection.sendall(piece)
            self.bytes_down += len(piece)
        return not endless and headers.get("connection", "").lower() != "close"

    def _choose(self, request: Request) -> Fault:
        with self._lock:
            self.requests[request.kind] += 1
            for fault in self._faults:
                if (fault.times is None or fault.acted < fault.times) and fault.matches(request):
                    fault.acted += 1
                    return fault
        return Fault()


def _put_for(fault: Fault, target: str, body: bytes) -> bytes:
    """Carries out a create-only PUT wrongly: without its condition, or with a check that is not atomic.
    Returns the answer for the client."""
    writer = fault.unconditional or fault.looks_first
    assert writer is not None
    key = urllib.parse.unquote(target.partition("?")[0]).removeprefix(f"/{writer.bucket}/")
    if fault.looks_first and writer.exists(key):
        return _error_answer(Fault(status=412, code="PreconditionFailed"), "PUT")
    if fault.looks_first:
        time.sleep(0.002)
    writer.put(key, body)
    return b'HTTP/1.1 200 OK\r\nETag: "0"\r\nContent-Length: 0\r\n\r\n'


def _with_a_flipped_bit(piece: bytes) -> bytes:
    middle = len(piece) // 2
    return piece[:middle] + bytes([piece[middle] ^ 1]) + piece[middle + 1 :]


class _ThreadedServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], serve: Callable[[socket.socket], None]):
        self._serve = serve
        super().__init__(address, socketserver.BaseRequestHandler)

    def finish_request(self, request, client_address) -> None:
        self._serve(request)

    def shutdown_request(self, request) -> None:
        self.close_request(request)


def _reset(connection: socket.socket) -> None:
    """Makes close() send a RST, so that the client sees the broken connection at once."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _error_answer(fault: Fault, method: str) -> bytes:
    code = fault.code or {503: "SlowDown", 409: "ConditionalRequestConflict", 403: "AccessDenied"}.get(
        fault.status, "InternalError"
    )
    text = (
        f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>injected by the test'
        f"</Message><RequestId>TEST</RequestId></Error>"
    )
    body = b"" if method == "HEAD" else text.encode()
    head = (
        f"HTTP/1.1 {fault.status} {code}\r\nContent-Type: application/xml\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
