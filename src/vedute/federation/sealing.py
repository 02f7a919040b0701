"""A message for one reader, past all who carry it: AES-256-GCM under a fresh key, which only that reader can unwrap."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vedute.errors import UserError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.padding import AsymmetricPadding

NONCE = 12  # bytes, as GCM wants it


def seal(data: bytes, certificate: bytes, about: bytes) -> bytes:
    """``data`` so that only the holder of the certificate's private key reads it; ``about`` is bound to it."""
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.x509 import load_pem_x509_certificate

    public = load_pem_x509_certificate(certificate).public_key()
    assert isinstance(public, RSAPublicKey)
    key, nonce = AESGCM.generate_key(256), os.urandom(NONCE)
    return public.encrypt(key, _padding()) + nonce + AESGCM(key).encrypt(nonce, data, about)


def unseal(sealed: bytes, private_key: bytes, about: bytes) -> bytes:
    """The message again."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    private = load_pem_private_key(private_key, None)
    assert isinstance(private, RSAPrivateKey)
    size = private.key_size // 8
    try:
        key = private.decrypt(sealed[:size], _padding())
        return AESGCM(key).decrypt(sealed[size : size + NONCE], sealed[size + NONCE :], about)
    except (ValueError, InvalidTag):
        raise UserError("the sealed model is damaged, or was sealed for another reader or run") from None


def _padding() -> AsymmetricPadding:
    from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
    from cryptography.hazmat.primitives.hashes import SHA256

    return OAEP(MGF1(SHA256()), SHA256(), None)
