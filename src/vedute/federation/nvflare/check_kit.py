"""Opening a kit: everything that can be wrong with it is found before anything is sent."""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from vedute.errors import UserError
from vedute.federation.nvflare.kits import KitFile, digest, need_nvflare, read_kit_file
from vedute.federation.shared_study import shared_text

COMMANDS = {"center": "vedute federation join", "server": "vedute federation serve", "lead": "vedute federation run"}


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
    if hashlib.sha256((path / "study.toml").read_bytes()).hexdigest() != file.study:
        raise UserError(f"{path / 'study.toml'}: is not the study that this kit was made for; unpack the kit again")
    if study is not None and digest(shared_text(study)) != file.study:
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
