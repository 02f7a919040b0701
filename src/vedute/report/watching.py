"""A small server for the live page: on this machine alone, behind an address that cannot be guessed."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from vedute.errors import UserError
from vedute.report.live import live_page, version

HOST = "127.0.0.1"  # never another: the page may show single patients


def make_server(run: Path, port: int = 0, *, ids: bool = False) -> tuple[ThreadingHTTPServer, str]:
    """The server and the address of the page; port 0 takes any free one.

    Other users of the machine may reach the port, and web pages may make a browser ask it: the secret in the path keeps
    the former out, and a look at the host that was asked for the latter.
    """
    secret = secrets.token_urlsafe(18)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            own = {f"{name}:{server.server_port}" for name in (HOST, "localhost")}
            if self.headers.get("Host") not in own:
                self._answer(HTTPStatus.FORBIDDEN, "text/plain", "ask for 127.0.0.1")
            elif self.path == f"/{secret}/":
                self._told("text/html", lambda: live_page(run, ids))
            elif self.path == f"/{secret}/version":
                self._told("text/plain", lambda: version(run))
            else:
                self._answer(HTTPStatus.NOT_FOUND, "text/plain", "there is nothing here")

        def _told(self, kind: str, make: Callable[[], str]) -> None:
            try:
                self._answer(HTTPStatus.OK, kind, make())
            except UserError as error:
                self._answer(HTTPStatus.CONFLICT, "text/plain", str(error))

        def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing: the log would hold the secret."""

    try:
        server = ThreadingHTTPServer((HOST, port), Handler)
    except OSError as error:
        raise UserError(f"port {port}: cannot be used ({error.strerror}); choose another with --port") from None
    server.daemon_threads = True
    return server, f"http://{HOST}:{server.server_port}/{secret}/"
