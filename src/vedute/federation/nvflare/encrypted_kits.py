"""What encrypted sums add to the kits: the centers' key, the server's parameters, and to whom a model is sealed."""

from __future__ import annotations

from pathlib import Path

from vedute.data.files import read_whole
from vedute.errors import UserError
from vedute.federation.encryption import Cipher, make_keys
from vedute.federation.nvflare.authority import write_private

SECRET, PARAMETERS, LEAD_CERTIFICATE = "he_secret.bin", "he_public.bin", "lead.crt"
NEEDED = {"center": (SECRET, LEAD_CERTIFICATE), "server": (PARAMETERS,), "lead": ()}


def make_shared_key(kits: Path) -> None:
    """One key for all centers. The authority keeps it, for centers that come later; the server gets no key."""
    secret, parameters = make_keys()
    write_private(kits / "authority" / SECRET, secret)
    write_private(kits / "server/local" / PARAMETERS, parameters)


def give_key(kits: Path, kit: Path) -> None:
    """What a center's kit needs besides."""
    if not (kits / "authority" / SECRET).is_file():
        raise UserError(f"{kits}: authority/{SECRET} is missing; without it no center can be added")
    write_private(kit / "local" / SECRET, (kits / "authority" / SECRET).read_bytes())
    write_private(kit / "local" / LEAD_CERTIFICATE, (kits / "lead/startup/client.crt").read_bytes())


def check_keys(kit: Path, role: str) -> None:
    """Everything is there, and the key is closed to others."""
    for name in NEEDED[role]:
        if not (kit / "local" / name).is_file():
            raise UserError(f"{kit}: is damaged (local/{name} is missing); ask the coordinator for it again")
    key = kit / "local" / SECRET
    if role == "center" and key.stat().st_mode & 0o077:
        raise UserError(f"{key}: others may read this key; close it with: chmod 600 {key}")


def center_keys(kit: Path) -> tuple[Cipher, bytes]:
    """The key of a center, and the lead's certificate."""
    return Cipher(read_whole(kit / "local" / SECRET)), read_whole(kit / "local" / LEAD_CERTIFICATE)


def server_keys(kit: Path) -> Cipher:
    """What the server has to add with."""
    return Cipher(read_whole(kit / "local" / PARAMETERS))
