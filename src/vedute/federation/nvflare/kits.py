"""Kits: what each center, the server and the lead are given, each a folder with a certificate and strict settings.

Where a kit is opened, everything that can be wrong with it is found before anything is sent.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from vedute.data.files import sha256, write_private
from vedute.data.problems import Problems
from vedute.data.study import Study
from vedute.errors import UserError
from vedute.federation.nvflare import local_files
from vedute.federation.nvflare.local_files import LEAD, SERVER, Json
from vedute.federation.shared_study import shared_text

if TYPE_CHECKING:
    from vedute.federation.nvflare.authority import Authority, Credentials

VERSION = 2  # rises whenever a class that a kit names, or what a kit holds, is called otherwise
PROJECT = "vedute"
ROLES = ("center", "server", "lead")
COMMANDS = {"center": "vedute federation join", "server": "vedute federation serve", "lead": "vedute federation run"}
RESERVED = {"server", "lead", "authority", SERVER}
LONGEST_NAME = 60  # a name in a certificate may have 64 characters
LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
HOST = re.compile(rf"(?=.{{1,253}}$)({LABEL}\.)*{LABEL}")


@dataclass(frozen=True)
class KitFile:
    """``kit.json``: whose kit it is, and for which study (by the digest of its ``study.toml``)."""

    vedute: int
    role: str
    name: str
    study: str
    project: str
    server: str
    port: int
    centers: tuple[str, ...]


def need_nvflare() -> None:
    """Refuse kindly where the extra is not installed."""
    if find_spec("nvflare") is None:
        raise UserError('federation across machines needs NVIDIA FLARE; install it with: pip install "vedute[nvflare]"')


def make_kits(
    study: Study, centers: Sequence[str], server: str, port: int, out: Path, days: int, start: datetime | None = None
) -> dict[str, Path]:
    """One kit for each center, for the server and for the lead below ``out``, by name; all of them or none.

    ``out/authority`` holds the key that signed them: who has it can make further kits, so it stays with the
    coordinator. ``start`` is when the certificates become valid (default: now).
    """
    need_nvflare()
    from vedute.federation.nvflare.authority import make_authority  # needs what was just asked for

    if out.exists():
        raise UserError(f"{out}: exists already; choose another folder, or add one center to it with --add")
    _check(study, centers, server, port, days)
    text = shared_text(study.path)
    first = KitFile(VERSION, "server", SERVER, sha256(text.encode()), PROJECT, server, port, tuple(centers))
    files = [first, replace(first, role="lead", name=LEAD)]
    files += [replace(first, role="center", name=center) for center in centers]
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        authority = make_authority(PROJECT, days, start)
        authority.save(temporary / "authority")
        for file in files:
            _write(temporary / folder_of(file), file, text, study, authority)
        temporary.rename(out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return {folder_of(file): out / folder_of(file) for file in files}


def add_kit(study: Study, center: str, out: Path) -> Path:
    """A kit for one more center, signed by the authority in ``out``; it ends when the others do."""
    need_nvflare()
    from vedute.federation.nvflare.authority import load_authority

    text = shared_text(study.path)
    known = read_kit_file(out / "server")
    if known.study != sha256(text.encode()):
        raise UserError(f"{out}: its kits are for another study than {study.path}; give the study they were made for")
    centers = (*known.centers, center)
    _check(study, centers, known.server, known.port, 1)
    authority = load_authority(out / "authority")
    temporary = Path(tempfile.mkdtemp(prefix=f".{center}-", dir=out))
    try:
        file = replace(known, role="center", name=center, centers=centers)
        _write(temporary / center, file, text, study, authority)
        (temporary / center).rename(out / center)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for folder in ("server", "lead"):
        _write_json(out / folder / "kit.json", asdict(replace(read_kit_file(out / folder), centers=centers)))
    return out / center


def folder_of(file: KitFile) -> str:
    """The name of a kit's folder: that of the center, or of the role."""
    return file.name if file.role == "center" else file.role


def read_kit_file(path: Path) -> KitFile:
    """``kit.json`` of the kit at ``path``."""
    where = path / "kit.json"
    try:
        raw = json.loads(where.read_bytes())
        file = KitFile(**{**raw, "centers": tuple(raw["centers"])})
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            f"{path}: is not a kit (no kit.json in it); give the folder that the coordinator sent"
        ) from None
    except (ValueError, TypeError, KeyError):
        raise UserError(f"{where}: is damaged; ask the coordinator for the kit again") from None
    if file.vedute != VERSION:
        raise UserError(
            f"{where}: version {file.vedute!r} of kits, but this vedute knows {VERSION}; ask the coordinator for new "
            "kits, or install the vedute that they were made with"
        )
    if file.role not in ROLES:
        raise UserError(f"{where}: is damaged (role {file.role!r}); ask the coordinator for the kit again")
    return file


def _check(study: Study, centers: Sequence[str], server: str, port: int, days: int) -> None:
    problems = Problems()
    for center in centers:
        if not re.fullmatch(rf"[A-Za-z0-9_-]{{1,{LONGEST_NAME}}}", center):
            problems.add(
                f"the center name {center!r} cannot travel between machines; use at most {LONGEST_NAME} of the "
                "letters a-z and A-Z, the digits, '-' and '_'"
            )
        elif center.lower() in RESERVED:
            problems.add(f"a center cannot be called {center!r}; choose another name")
    lowered = [center.lower() for center in centers]
    for center in sorted({name for name in lowered if lowered.count(name) > 1}):
        problems.add(f"the center {center!r} is named twice; name it once")
    if not HOST.fullmatch(server):
        problems.add(f"{server!r} is not the name or address of a server; write fl.example.org or 192.0.2.7")
    if not 1 <= port <= 65535:
        problems.add(f"the port {port} is not between 1 and 65535; choose another")
    if not 1 <= days <= 3650:
        problems.add(f"certificates cannot be valid for {days} days; choose 1 to 3650")
    settings = study.federation
    if len(centers) < settings.minimum_centers:
        problems.add(
            f"{len(centers)} centers, but [federation] minimum_centers = {settings.minimum_centers}; "
            "name more centers, or lower it"
        )
    problems.raise_if_any(str(study.path))


def _write(folder: Path, file: KitFile, text: str, study: Study, authority: Authority) -> None:
    """One kit, complete."""
    startup, local = folder / "startup", folder / "local"
    for made in (folder, startup, local, folder / "transfer"):
        made.mkdir(mode=0o700)
    host, port, project = file.server, file.port, file.project
    if file.role == "server":
        _credentials(startup, "server", authority.issue(file.name, host=host))
        _write_json(startup / "fed_server.json", local_files.server_startup(project, host, port))
        _write_json(local / "authorization.json", local_files.authorization())
        _write_json(local / "resources.json", local_files.server_resources(study.federation, "/"))
    elif file.role == "center":
        _credentials(startup, "client", authority.issue(file.name))
        _write_json(startup / "fed_client.json", local_files.center_startup(project, host, port, file.name))
        _write_json(local / "authorization.json", local_files.authorization())
        _write_json(local / "privacy.json", local_files.privacy())
        _write_json(local / "resources.json", local_files.center_resources())
    else:
        _credentials(startup, "client", authority.issue(file.name, role="lead"))
        _write_json(startup / "fed_admin.json", local_files.lead_startup(project, host, port))
        _write_json(local / "resources.json", local_files.lead_resources())
    (startup / "rootCA.pem").write_bytes(authority.own.certificate)
    _write_json(local / "comm_config.json", local_files.communication())
    _write_json(local / "log_config.json", local_files.logging())
    (folder / "study.toml").write_text(text, encoding="utf-8")
    _write_json(folder / "kit.json", asdict(file))


def _credentials(startup: Path, name: str, credentials: Credentials) -> None:
    (startup / f"{name}.crt").write_bytes(credentials.certificate)
    write_private(startup / f"{name}.key", credentials.key)


def _write_json(path: Path, content: Json) -> None:
    fresh = path.with_name(path.name + ".new")
    write_private(fresh, json.dumps(content, indent=2).encode() + b"\n")
    os.replace(fresh, path)


@dataclass(frozen=True)
class Kit:
    """A kit that was checked."""

    path: Path
    file: KitFile
    ends: datetime

    @property
    def study(self) -> Path:
        """The shared study."""
        return self.path / "study.toml"

    @property
    def address(self) -> str:
        """Where the server is."""
        return f"{self.file.server}:{self.file.port}"


def open_kit(path: Path, role: str, study: Path | None = None) -> Kit:
    """The kit at ``path`` if it is whole, of this role, valid today and for this ``study``."""
    need_nvflare()
    path = path.absolute()
    file = read_kit_file(path)
    if file.role != role:
        raise UserError(f"{path}: is the kit of {_holder(file)}; it is for {COMMANDS[file.role]!r}")
    name = "server" if role == "server" else "client"
    certificate, key = path / "startup" / f"{name}.crt", path / "startup" / f"{name}.key"
    for needed in (path / "study.toml", certificate, key, path / "startup/rootCA.pem", path / "local/resources.json"):
        if not needed.is_file():
            raise UserError(
                f"{path}: is damaged ({needed.relative_to(path)} is missing); ask the coordinator for it again"
            )
    if sha256((path / "study.toml").read_bytes()) != file.study:
        raise UserError(f"{path / 'study.toml'}: is not the study that this kit was made for; unpack the kit again")
    if study is not None and sha256(shared_text(study).encode()) != file.study:
        raise UserError(
            f"{path}: is a kit for another study than {study}; give the study file that the kits were made from, "
            "or make new kits with 'vedute federation init'"
        )
    if key.stat().st_mode & 0o077:
        raise UserError(f"{key}: others may read this private key; close it with: chmod 600 {key}")
    return Kit(path, file, _check_dates(certificate))


@contextmanager
def held(kit: Kit) -> Iterator[None]:
    """Keep a second process from using the kit; a process that dies lets go of it."""
    folder = os.open(kit.path, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UserError(f"{kit.path}: another process is using this kit; stop that one first") from None
    finally:
        os.close(folder)


def check_port(kit: Kit) -> None:
    """Refuse to serve where somebody else listens."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", kit.file.port))
        except OSError as error:
            raise UserError(
                f"the port {kit.file.port} cannot be used ({error.strerror}); stop what listens there, or make kits "
                "for another one: vedute federation init --port"
            ) from None


def _holder(file: KitFile) -> str:
    return f"center {file.name!r}" if file.role == "center" else f"the {file.role}"


def _check_dates(path: Path) -> datetime:
    """When the certificate ends; an error where it is not valid now."""
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        raise UserError(f"{path}: is not a certificate; ask the coordinator for the kit again") from None
    now, first, last = datetime.now(UTC), certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < first:
        raise UserError(
            f"{path}: is valid from {first:%Y-%m-%d %H:%M} UTC on, and this machine's clock says "
            f"{now:%Y-%m-%d %H:%M} UTC; set the clock, or wait"
        )
    if now > last:
        raise UserError(
            f"{path}: expired on {last:%Y-%m-%d %H:%M} UTC, and this machine's clock says {now:%Y-%m-%d %H:%M} UTC; "
            "set the clock if it is wrong, else ask the coordinator for a new kit"
        )
    return last
