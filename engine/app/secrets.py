"""`open_secrets`: reads the configured secrets, and makes the placeholders that stand for them."""

import os
import secrets as random_values
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.app.home import PRIVATE, Home
from engine.app.secret_sources import SecretMissing, exposure, read_source
from engine.contract.failure import ConfigError
from engine.dispatch.call_secrets import CallSecrets
from sandbox.contract import Destination
from sandbox.secrets.redactor import Redactor
from sandbox.secrets.secret import Secret, SecretHost, placeholder_of

if TYPE_CHECKING:
    from engine.app.secret_settings import SecretSettings

_KEY_BYTES = 32
_PLAIN = "http://"


@dataclass(frozen=True, slots=True)
class SecretState:
    """What may be shown of a configured secret.

    Attributes:
        problem: Why the value cannot be used, and what to do; "" if it can.
        exposed: Why other users of the machine may read the value; "" if they cannot.
    """

    name: str
    source: str
    hosts: tuple[str, ...]
    tools: tuple[str, ...]
    problem: str = ""
    exposed: str = ""


@dataclass(frozen=True, slots=True)
class OpenedSecrets:
    """The secrets of an engine.

    Attributes:
        found: Those whose values could be read.
        states: All that are configured, by name.
        calls: What the pipeline of calls needs; None if no secret is configured.
    """

    found: tuple[Secret, ...] = ()
    states: tuple[SecretState, ...] = ()
    calls: CallSecrets | None = None

    @property
    def redactor(self) -> Redactor | None:
        """Replaces the values; None if there are none."""
        return None if self.calls is None else self.calls.redactor


def open_secrets(home: Home, configured: "Mapping[str, SecretSettings]", environ: Mapping[str, str]) -> OpenedSecrets:
    """Read the values of all configured secrets. Blocks. A value that cannot be read is no error.

    Args:
        home: The home, which has the key of the placeholders.
        configured: The tables `[secrets.NAME]`.
        environ: The environment variables.

    Raises:
        ConfigError: The key of the placeholders cannot be read or written, or two secrets contradict each other.
    """
    if not configured:
        return OpenedSecrets()
    key = placeholder_key(home.placeholder_key)
    placeholders = {name: placeholder_of(name, key) for name in configured}
    found: list[Secret] = []
    states: list[SecretState] = []
    for name, table in sorted(configured.items()):
        problem = ""
        try:
            hosts = tuple(map(_host, table.hosts))
            found.append(Secret(name, placeholders[name], read_source(table.source, environ), hosts))
        except SecretMissing as error:
            problem = str(error)
        except ValueError as error:
            problem = f"T{str(error)[1:]}."
        exposed = "" if problem else exposure(table.source)
        states.append(SecretState(name, table.source, table.hosts, table.tools, problem, exposed))
    _check_hosts(found)
    missing = {placeholders[state.name]: f"{state.name}: {state.problem}" for state in states if state.problem}
    calls = CallSecrets(found, {state.name: state.tools for state in states}, missing)
    return OpenedSecrets(tuple(found), tuple(states), calls)


def placeholder_key(path: Path) -> bytes:
    """Return the key of the home's placeholders. It is created on first use, readable only by its owner.

    Raises:
        ConfigError: The file cannot be read or written.
    """
    try:
        if not path.exists():
            path.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            _create(path, random_values.token_bytes(_KEY_BYTES))
        key = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be used ({error.strerror}). Check its permissions.") from None
    if len(key) != _KEY_BYTES:
        raise ConfigError(f"{path}: is damaged. Remove it; the next start creates a new one.")
    return key


def _create(path: Path, data: bytes) -> None:
    """Create the file, complete or not at all. Another process may create it first."""
    staged = path.with_name(f".{path.name}.{random_values.token_hex(8)}")
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
        os.link(staged, path)
    except FileExistsError:
        pass
    finally:
        os.close(descriptor)
        staged.unlink(missing_ok=True)


def _host(text: str) -> SecretHost:
    place = Destination.parse(text.removeprefix(_PLAIN))
    return SecretHost(place.host, place.port, tls=not text.startswith(_PLAIN))


def _check_hosts(found: list[Secret]) -> None:
    tls: dict[tuple[str, int], bool] = {}
    for secret in found:
        for host in secret.hosts:
            if tls.setdefault((host.host, host.port), host.tls) != host.tls:
                raise ConfigError(
                    f"secrets.{secret.name}: {host.host}:{host.port} is listed with http:// and without. "
                    "List it in one way for all secrets."
                )
