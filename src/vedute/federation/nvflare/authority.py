"""The certificate authority of one federation: who holds one of its certificates belongs to it.

A certificate names its holder (a center, the server, the lead), and only the lead's carries a role. What a certificate
may be used for is written into it, so that a center cannot pose as the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from vedute.data.files import write_private
from vedute.errors import UserError

ORGANISATION = "vedute"
SLACK = timedelta(hours=1)  # clocks of hospitals may run a little behind ours


@dataclass(frozen=True)
class Credentials:
    """A certificate and its private key, in PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True)
class Authority:
    """Signs certificates, all of which end when its own does."""

    own: Credentials

    @property
    def certificate(self) -> x509.Certificate:
        """Its own certificate, which everybody is given."""
        return x509.load_pem_x509_certificate(self.own.certificate)

    def issue(self, name: str, *, role: str | None = None, host: str | None = None) -> Credentials:
        """Credentials of ``name``: of a server where a ``host`` is given, else of one who connects to it."""
        from nvflare.lighter.utils import Identity, generate_cert, generate_keys

        key, public = generate_keys()
        usage = ExtendedKeyUsageOID.SERVER_AUTH if host else ExtendedKeyUsageOID.CLIENT_AUTH
        root = self.certificate
        certificate = generate_cert(
            subject=Identity(name, ORGANISATION, role),
            issuer=Identity(root.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value),
            signing_pri_key=load_pem_private_key(self.own.key, None),
            subject_pub_key=public,
            server_default_host=host,
            not_valid_before=root.not_valid_before_utc,
            not_valid_after=root.not_valid_after_utc,
            extra_extensions=[(x509.ExtendedKeyUsage([usage]), False)],
        )
        return _pem(certificate, key)

    def save(self, folder: Path) -> None:
        """Write it where only its owner reads it."""
        folder.mkdir(mode=0o700)
        write_private(folder / "authority.key", self.own.key)
        (folder / "authority.crt").write_bytes(self.own.certificate)


def make_authority(project: str, days: int, start: datetime | None = None) -> Authority:
    """A new authority whose certificates are valid for ``days``."""
    from nvflare.lighter.utils import Identity, generate_cert, generate_keys

    key, public = generate_keys()
    start = (start or datetime.now(UTC)) - SLACK
    me = Identity(project)
    certificate = generate_cert(
        subject=me,
        issuer=me,
        signing_pri_key=key,
        subject_pub_key=public,
        ca=True,
        not_valid_before=start,
        not_valid_after=start + SLACK + timedelta(days=days),
    )
    return Authority(_pem(certificate, key))


def load_authority(folder: Path) -> Authority:
    """The authority that ``save`` wrote."""
    try:
        return Authority(Credentials((folder / "authority.crt").read_bytes(), (folder / "authority.key").read_bytes()))
    except FileNotFoundError as error:
        raise UserError(f"{folder}: {error.filename} is missing; without it no kit can be added") from None


def _pem(certificate: Any, key: Any) -> Credentials:
    from nvflare.lighter.utils import serialize_cert, serialize_pri_key

    return Credentials(serialize_cert(certificate), serialize_pri_key(key))
