"""Determines where uv gets packages on this machine: from uv's own configuration, or from pip's, converted for uv.

uv does not read pip's configuration, and it runs without the user's home and environment. So the settings it may see
are assembled here: indexes, certificates and proxies, and nothing else. They are passed in environment variables
instead of on the command line, since the address of an index may contain a password.

Sources: pip's "Configuration" page for its files and their order, uv's "Environment variables" reference.
"""

import configparser
import os
import pwd
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sandbox.contract import SandboxError

# If any of these is set, the user has configured uv itself.
_UV_PLACES = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_OFFLINE")
_UV_OTHERS = (
    "UV_INDEX_STRATEGY", "UV_INSECURE_HOST", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "UV_HTTP_TIMEOUT", "UV_HTTP_RETRIES",
    "UV_EXCLUDE_NEWER", "NETRC",
)  # fmt: skip
_NETWORK = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "SSL_CLIENT_CERT")
_INDEX_LOGIN = re.compile(r"UV_INDEX_\w+_(USERNAME|PASSWORD)")
_UV_FILE_KEYS = {"index", "index-url", "extra-index-url", "find-links", "no-index"}
_TRUE = ("1", "true", "yes", "on", "y", "t")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+?(?=[)\].,`'\">]*(?:\s|$))")
_SHOWN = "<index>"


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Settings for uv.

    Attributes:
        environment: Environment variables. uv gets no other variables from the machine.
        options: Command-line options, without secrets.
        private: Addresses, hosts and folders that must not appear in any message.
    """

    environment: Mapping[str, str]
    options: tuple[str, ...] = ()
    private: tuple[str, ...] = ()

    def redact(self, text: str) -> str:
        """Return the text without addresses and `private` words. An address may contain a password."""
        text = _ADDRESS.sub(_SHOWN, text)
        for word in self.private:
            text = text.replace(word, _SHOWN)
        return text


def of_this_machine(environ: Mapping[str, str]) -> IndexSettings:
    """Return the settings for uv, read from `environ` and from the configuration files of uv and pip.

    Raises:
        SandboxError: A file is unreadable.
    """
    carried = {name: value for name, value in environ.items() if _is_carried(name) and value}
    pip = _pip_settings(environ)
    _carry_network(pip, carried)
    if any(environ.get(name) for name in _UV_PLACES):
        return _settings_of(carried, ())
    uv_file = _uv_file(environ)
    if uv_file is not None:
        path, content = uv_file
        carried["UV_CONFIG_FILE"] = str(path)
        return _settings_of(carried, tuple(_strings(content)))
    return _from_pip(pip, carried)


def _is_carried(name: str) -> bool:
    return name in _UV_PLACES or name in _UV_OTHERS or name.upper() in _NETWORK or bool(_INDEX_LOGIN.fullmatch(name))


def _from_pip(pip: Mapping[str, str], carried: dict[str, str]) -> IndexSettings:
    first, more = pip.get("index-url", "").strip(), pip.get("extra-index-url", "").split()
    links = [_absolute(link) for link in pip.get("find-links", "").split()]
    if first:
        carried["UV_DEFAULT_INDEX"] = first
    if more:
        carried["UV_INDEX"] = " ".join(more)
        # pip takes the best version of all its indexes, so a user who configured several for pip trusts them equally.
        carried.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    if links:
        carried["UV_FIND_LINKS"] = ",".join(links)
    if pip.get("trusted-host"):
        carried.setdefault("UV_INSECURE_HOST", " ".join(pip["trusted-host"].split()))
    options = ("--no-index",) if pip.get("no-index", "").strip().lower() in _TRUE else ()
    return _settings_of(carried, (), options)


def _carry_network(pip: Mapping[str, str], carried: dict[str, str]) -> None:
    """Add pip's proxy, certificates and timeout to `carried`. Except for the timeout, they replace existing values."""
    proxy = pip.get("proxy", "").strip()
    if proxy:
        proxy = proxy if "://" in proxy else f"http://{proxy}"
        carried.update(HTTP_PROXY=proxy, HTTPS_PROXY=proxy)
    if pip.get("cert"):
        carried["SSL_CERT_FILE"] = _absolute(pip["cert"].strip())
    if pip.get("client-cert"):
        carried["SSL_CLIENT_CERT"] = _absolute(pip["client-cert"].strip())
    timeout = pip.get("timeout") or pip.get("default-timeout") or ""
    if timeout.replace(".", "", 1).isdigit():
        carried.setdefault("UV_HTTP_TIMEOUT", str(max(1, round(float(timeout)))))


def _settings_of(carried: dict[str, str], more: tuple[str, ...], options: tuple[str, ...] = ()) -> IndexSettings:
    private: set[str] = set()
    for value in (*(carried.get(name, "") for name in (*_UV_PLACES, "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")), *more):
        for word in re.split(r"[\s,]+", value):
            if "://" in word:
                parts = urlsplit(word)
                folder = parts.path if parts.scheme == "file" else None
                private.update(text for text in (word, parts.hostname, parts.password, folder) if text)
            elif word.startswith("/"):
                private.add(word.rstrip("/"))
    longest_first = tuple(sorted((word for word in private if len(word) > 1), key=len, reverse=True))
    return IndexSettings(carried, options, longest_first)


def _pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return pip's settings, keyed by long option name. Later sources override earlier ones, as in pip."""
    settings: dict[str, str] = {}
    for path in _pip_files(environ):
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError) as problem:
            detail = str(problem).splitlines()[0]
            raise SandboxError(
                f"pip's configuration {path} cannot be read ({detail}), so the package index is unknown.",
                remedy="Fix or remove this file (`pip config debug` shows all of pip's files).",
            ) from problem
        for section in ("global", "install"):
            if parser.has_section(section):
                settings.update({name.replace("_", "-"): value for name, value in parser.items(section)})
    for name, value in environ.items():
        if name.startswith("PIP_") and value:
            settings[name.removeprefix("PIP_").lower().replace("_", "-")] = value
    return settings


def _pip_files(environ: Mapping[str, str]) -> Iterator[Path]:
    own = environ.get("PIP_CONFIG_FILE")
    if own == os.devnull:
        return
    for folder in (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":"):
        yield Path(folder) / "pip/pip.conf"
    yield Path("/etc/pip.conf")
    yield _home(environ) / ".pip/pip.conf"
    yield _user_folder(environ) / "pip/pip.conf"
    yield Path(sys.prefix) / "pip.conf"
    if own:
        yield Path(own)


def _uv_file(environ: Mapping[str, str]) -> tuple[Path, dict[str, Any]] | None:
    """Return the path and the content of the first uv.toml that configures indexes; None if there is none."""
    if environ.get("UV_NO_CONFIG", "").lower() in _TRUE:
        return None
    own = environ.get("UV_CONFIG_FILE")
    system = [Path(folder) / "uv/uv.toml" for folder in (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")]
    for path in [Path(own)] if own else [_user_folder(environ) / "uv/uv.toml", *system, Path("/etc/uv/uv.toml")]:
        if not path.is_file():
            continue
        try:
            content = tomllib.loads(path.read_text("utf-8"))
        except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as problem:
            raise SandboxError(
                f"uv's configuration {path} cannot be read ({problem}), so the package index is unknown.",
                remedy="Fix or remove this file.",
            ) from problem
        if _UV_FILE_KEYS & (content.keys() | content.get("pip", {}).keys()):
            return path.absolute(), content
    return None


def _strings(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict | list):
        for item in content.values() if isinstance(content, dict) else content:
            yield from _strings(item)


def _absolute(path: str) -> str:
    return path if "://" in path else str(Path(path).expanduser().absolute())


def _home(environ: Mapping[str, str]) -> Path:
    try:
        return Path(environ.get("HOME") or pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:  # a user id without an entry, as in some containers
        return Path("/")


def _user_folder(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CONFIG_HOME") or _home(environ) / ".config")
