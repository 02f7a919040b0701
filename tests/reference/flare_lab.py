"""A federation on the loopback: kits, engines as real processes that are ended by their own id, a lead's session."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from ports import free_port
from vedute.data.files import write_private
from vedute.data.study import Study
from vedute.federation.nvflare.authority import load_authority
from vedute.federation.nvflare.kits import Kit, make_kits
from vedute.federation.nvflare.local_files import LEAD
from vedute.federation.nvflare.processes import engine

STUDY = """\
[study]
name = "lab"
components = 1
[views.CLINIC]
columns = ["age", "sbp"]
[views.MRI]
columns = ["left", "right"]
[federation]
minimum_centers = 1
heartbeat = 8
timeout = 20
"""


def lab_kits(folder: Path, text: str = STUDY, days: int = 2, start: datetime | None = None) -> dict[str, Path]:
    """Kits for the centers nice and paris; the study lies beside them."""
    (folder / "study.toml").write_text(text)
    study = Study.load_shared(folder / "study.toml")
    return make_kits(study, ["nice", "paris"], "localhost", free_port(), folder / "kits", days, start)


def give_credentials(kit: Path, authority: Path, name: str, role: str | None = None) -> None:
    """Put other credentials into the kit of one who connects."""
    issued = load_authority(authority).issue(name, role=role)
    (kit / "startup/client.crt").write_bytes(issued.certificate)
    write_private(kit / "startup/client.key", issued.key)


@contextmanager
def running(*kits: Kit) -> Iterator[None]:
    """The engines of all these kits; what they say is in the kits."""
    with ExitStack() as stack:
        for kit in kits:
            process = stack.enter_context(engine(kit))
            assert process.stdout is not None
            threading.Thread(target=process.stdout.read, daemon=True).start()
        yield


def log(kit: Path) -> str:
    """What an engine has said so far."""
    path = kit / "log.txt"
    return path.read_text() if path.exists() else ""


def wait_for(what: Callable[[], object], seconds: float = 90.0) -> None:
    """Until ``what()`` is true. How long that takes is nobody's claim, but for ever is too long."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise TimeoutError(f"still not true after {seconds} s")
        time.sleep(0.1)


@contextmanager
def session(kit: Path, user: str = LEAD) -> Iterator[Any]:
    """A person's connection to the server."""
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    opened = new_secure_session(user, str(kit), timeout=30.0)
    try:
        yield opened
    finally:
        opened.close()


def outcome(opened: Any, job: Path) -> str:
    """What becomes of a submitted job that ends before it runs: status and what each site said."""
    name = opened.submit_job(str(job))
    meta: dict[str, Any] = {}

    def ended() -> bool:
        meta.update(opened.get_job_meta(name))
        return str(meta.get("status")).startswith("FINISHED") and "job_deploy_detail" in meta

    wait_for(ended)
    return "\n".join([str(meta["status"]), *meta["job_deploy_detail"]])
