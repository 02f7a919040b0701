"""The page of a fit that is still running, and a small server for it: on this machine alone, by a secret address."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from vedute.data.files import from_json, read_whole
from vedute.errors import UserError
from vedute.model.parameters import Schema
from vedute.report.content import Section
from vedute.report.convergence import convergence_so_far
from vedute.report.page import page, render
from vedute.report.reading import Folder, read_folder, title_of
from vedute.run.checkpoint import latest, load_snapshot, read_named
from vedute.run.fitted_model import Model, build_settings
from vedute.run.run_folder import CHECKPOINT, CHECKSUMS, RUN, Run, Stage, stage

HOST = "127.0.0.1"  # never another: the page may show single patients
WAITING = (
    "Nothing is written yet: the first checkpoint comes with the first rounds, under a privacy policy with the end."
)
LATER = "everything else: the full report appears here by itself when the fit has ended"


def version(path: Path) -> str:
    """A word that changes whenever the page would."""
    if not path.is_dir():
        return "new"
    at = stage(path)
    if at is Stage.FINISHED:
        return f"finished-{(path / CHECKSUMS).stat().st_mtime_ns}"
    found = latest(path / CHECKPOINT, "round")
    return "new" if found is None else found.stem


def live_page(path: Path, ids: bool = False) -> str:
    """The full report of a finished run, or how far a running one has come."""
    word = version(path)
    if word.startswith("finished"):
        return render(read_folder(path), ids=ids, live=word)
    folder = None if word == "new" else _running(path)
    if folder is None:
        return page(
            path.resolve().name, (Section("live", "The fit begins", (WAITING,), missing=(LATER,)),), 1, {}, word
        )
    rounds, most = len(folder.run.history), folder.run.model.settings.rounds
    moved = f"; the last one changed the model by {folder.run.history[-1].change:.1e}" if rounds > 1 else ""
    told = f"Round {rounds} of at most {most}{moved}."
    began = Section("live", "The fit is running", (told,), missing=(LATER,))
    return page(folder.name, (began, convergence_so_far(folder)), folder.run.model.prior.q, {}, word)


def _running(path: Path) -> Folder | None:
    """The latest checkpoint as a run; None when it was replaced while we looked."""
    data = latest(path / CHECKPOINT, "data")
    try:
        if data is None:
            return None
        _, names = read_named(data)
        schema = Schema(names["views"])
        snapshot = load_snapshot(path / CHECKPOINT, schema.layout)
        settings = build_settings(from_json(read_whole(path / RUN), path / RUN)["settings"])
    except UserError:
        return None  # a newer checkpoint took its place; the next look finds that
    if snapshot is None or not snapshot.progress.history:
        return None
    model = Model(schema, snapshot.progress.prior, {}, {}, settings)
    return Folder(title_of(path), Run(model, snapshot.progress.history, False))


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
