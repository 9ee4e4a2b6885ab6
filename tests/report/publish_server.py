"""An endpoint like TestAPI on the loopback interface, which can be told to misbehave."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Api:
    """What was posted, and what is answered.

    Attributes:
        url: Its address.
        answers: Statuses of the next answers, the last one for all that follow.
        said: Body of an answer that is no success.
        headers: Headers of every answer.
        slow_s: Time before an answer.
        lost: Answers that the network loses, after the document was taken.
    """

    url: str = ""
    answers: list[int] = field(default_factory=lambda: [200])
    said: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    slow_s: float = 0.0
    lost: int = 0
    keys: set[str] = field(default_factory=set)
    documents: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)


@contextmanager
def serve(context: ssl.SSLContext | None = None) -> Iterator[Api]:
    """Serve until the block ends."""
    api = Api()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            api.requests.append((self.command, self.path, dict(self.headers)))
            time.sleep(api.slow_s)
            status = api.answers.pop(0) if len(api.answers) > 1 else api.answers[0]
            key = self.headers.get("Idempotency-Key", "")
            if status < 300 and key not in api.keys:
                api.documents.append(json.loads(body))
                api.keys |= {key} - {""}
            if api.lost:
                api.lost -= 1
                self.close_connection = True
                return
            text = (api.said if status >= 300 else '{"href": "/api/v1/results/1"}').encode()
            self.send_response(status)
            for name, value in api.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_GET = _answer  # noqa: N815 - the server's own names

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "https" if context else "http"
    api.url = f"{scheme}://127.0.0.1:{server.server_address[1]}/api/v1/results"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
