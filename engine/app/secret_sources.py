"""Reads the values of secrets from the environment, a file or the keyring. All functions block."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

_MOST_BYTES = 64 << 10
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class SecretMissing(Exception):
    """A value cannot be read. The message says why and what to do, and never contains a value."""


def read_source(source: str, environ: Mapping[str, str]) -> str:
    """Return the value that a source names. A line break at its end is removed.

    Args:
        source: `env:VARIABLE`, `file:PATH` or `keyring:SERVICE/USER`.
        environ: The environment variables.

    Raises:
        SecretMissing: There is no value.
    """
    kind, _, place = source.partition(":")
    if kind == "env":
        value = environ.get(place)
        if value is None:
            raise SecretMissing(f"The variable {place} is not set. Set it before Knackbox starts.")
        return value.rstrip("\r\n")
    return _of_file(Path(place).expanduser()) if kind == "file" else _of_keyring(place)


def exposure(source: str) -> str:
    """Return why other users of the machine may read the value, and what to do; "" if they cannot."""
    kind, _, place = source.partition(":")
    if kind != "file":
        return ""
    path = Path(place).expanduser()
    try:
        mode = path.stat().st_mode & 0o777
    except OSError:
        return ""
    return f"Other users can read {path} (mode {mode:o}). To prevent this, run chmod 600." if mode & _OTHERS else ""


def _of_file(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # opening a FIFO must not block
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SecretMissing(f"{path} is not a regular file. Name a file that contains only the value.")
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise SecretMissing(f"{path} cannot be read ({error.strerror}). Check the path and its permissions.") from None
    if len(data) > _MOST_BYTES:
        raise SecretMissing(f"{path} has over {_MOST_BYTES >> 10} KiB. Name a file that contains only the value.")
    try:
        return data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise SecretMissing(f"{path} is not text in UTF-8. Name a file that contains only the value.") from None


def _of_keyring(place: str) -> str:
    service, _, user = place.partition("/")
    try:
        import keyring  # noqa: PLC0415 -- an optional package, and slow to import
        from keyring.errors import KeyringError  # noqa: PLC0415 -- likewise
    except ImportError:
        raise SecretMissing("The keyring needs a package: run pip install 'knackbox[keyring]'.") from None
    try:
        value = keyring.get_password(service, user)
    except KeyringError as error:
        raise SecretMissing(f"The keyring cannot be read ({type(error).__name__}). Unlock it, or use a file.") from None
    if value is None:
        raise SecretMissing(f"The keyring has no entry for {place}. Add it with: keyring set {service} {user}")
    return str(value).rstrip("\r\n")
