"""`SigningKey`: the Ed25519 key with which a home signs its snapshots and skills (RFC 8032)."""

import os
from collections.abc import Callable
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from engine.registry.static import RegistryError

_BYTES = 32
_MODE = 0o600

Sign = Callable[[bytes], str]


def verifies(public: str, signature: str, data: bytes) -> bool:
    """Return whether this signature of these bytes was made with this key. Key and signature are in hexadecimal."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(signature), data)
    except (InvalidSignature, ValueError):
        return False
    return True


class SigningKey:
    """A private key, in a file that only its owner can read. Created on first use."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def exists(self) -> bool:
        return self._path.exists()

    def make(self, first: Callable[[Sign], None]) -> None:
        """Create the key if there is none. Callers must hold the lock that protects the signed data.

        Args:
            first: Function that writes the files that must exist before the key file. It is called before the key file
                is created, and receives a function that signs with the new key.
        """
        if self.exists:
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        staged = self._path.with_name(f"{self._path.name}.new")
        staged.unlink(missing_ok=True)  # left over if an earlier writer was killed at this point
        key = Ed25519PrivateKey.generate()
        descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
        try:
            os.write(descriptor, key.private_bytes_raw())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        first(lambda data: key.sign(data).hex())
        staged.rename(self._path)

    def sign(self, data: bytes) -> str:
        """Return the signature in hexadecimal.

        Raises:
            RegistryError: The key cannot be used.
        """
        return self._private().sign(data).hex()

    def verifies(self, signature: str, data: bytes) -> bool:
        """Return whether this key signed exactly these bytes.

        Raises:
            RegistryError: The key cannot be used.
        """
        return verifies(self.public, signature, data)

    @property
    def public(self) -> str:
        """The public key, in hexadecimal.

        Raises:
            RegistryError: The key cannot be used.
        """
        return self._private().public_key().public_bytes_raw().hex()

    def _private(self) -> Ed25519PrivateKey:
        try:
            mode = self._path.stat().st_mode & 0o777
            data = self._path.read_bytes()
        except OSError as error:
            raise RegistryError(f"{self._path}: the signing key cannot be read ({error.strerror}).") from error
        if mode & ~_MODE:
            raise RegistryError(
                f"{self._path}: other users can read the signing key (mode {mode:o}). Run chmod 600 on it."
            )
        if len(data) != _BYTES:
            raise RegistryError(f"{self._path}: it is not a signing key. Restore the original.")
        return Ed25519PrivateKey.from_private_bytes(data)
