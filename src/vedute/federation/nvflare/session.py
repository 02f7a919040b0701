"""The lead's line to the server: what it asks of NVFlare, and one error for everything that may pass by itself."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from vedute.errors import UserError
from vedute.federation.nvflare.local_files import LEAD
from vedute.federation.nvflare.names import STATS

T = TypeVar("T")
CONNECT_SECONDS = 5.0


class Unreachable(Exception):
    """The server does not answer, or not as it should; it may later."""


@dataclass(frozen=True)
class Sight:
    """What the server shows: since when it runs, which centers are connected, which jobs run."""

    started: float
    centers: frozenset[str]
    jobs: frozenset[str]


class Line:
    """A connection that is made when it is needed and made again when it broke."""

    def __init__(self, kit: Path) -> None:
        self.kit = kit
        self._session: Any = None
        logging.getLogger("nvflare").setLevel(logging.CRITICAL)  # its retries are ours to tell

    def close(self) -> None:
        """Hang up."""
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(Exception), _quiet():
                session.close()

    def look(self) -> Sight:
        """Who is there."""
        info = self._do(lambda session: session.get_system_info())
        return Sight(
            float(info.server_info.start_time or 0.0),
            frozenset(str(client.name) for client in info.client_info),
            frozenset(str(job.job_id) for job in info.job_info),
        )

    def submit(self, folder: Path) -> str:
        """Submit a job; its id."""
        return str(self._do(lambda session: session.submit_job(str(folder))))

    def status(self, job: str) -> str:
        """What NVFlare says of a job, such as RUNNING or FINISHED:COMPLETED."""
        return str(self._do(lambda session: session.get_job_meta(job)).get("status", ""))

    def progress(self, job: str) -> dict[str, Any]:
        """What the controller tells of a running job; nothing while it starts, which says nothing about the line."""
        try:
            told = self._do(lambda session: session.show_stats(job, "server"), hang_up=False)
        except Unreachable:
            return {}
        found = told.get("server", {}) if isinstance(told, dict) else {}
        stats = found.get(STATS, {}) if isinstance(found, dict) else {}
        return stats if isinstance(stats, dict) else {}

    def abort(self, job: str) -> None:
        """Stop a job, if it still runs."""
        with contextlib.suppress(Unreachable):
            self._do(lambda session: session.abort_job(job))

    def fetch(self, job: str, folder: Path) -> Path:
        """What the job left, downloaded into ``folder``."""
        return Path(str(self._do(lambda session: session.download_job_result(job, str(folder)))))

    def _do(self, what: Callable[[Any], T], *, hang_up: bool = True) -> T:
        from nvflare.fuel.flare_api.api_spec import AuthenticationError, AuthorizationError
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        try:
            with _quiet():
                if self._session is None:
                    self._session = new_secure_session(LEAD, str(self.kit), timeout=CONNECT_SECONDS)
                return what(self._session)
        except (AuthenticationError, AuthorizationError) as error:
            self.close()
            raise UserError(f"the server refuses the lead's kit ({error}); was it made with the server's?") from None
        except Exception as error:  # NVFlare raises many kinds, documented and not; all of them mean: try again
            if hang_up:
                self.close()
            raise Unreachable(f"{type(error).__name__}: {error}") from None


@contextlib.contextmanager
def _quiet() -> Any:
    """NVFlare prints what it does; the user reads our words."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
