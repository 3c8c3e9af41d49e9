"""Reads the MCP servers in the configuration of a client, and writes them as a part of Knackbox's own (`config.toml`).

Claude Desktop and most other clients have an object `mcpServers`, VS Code has `servers`.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from engine.app.module_settings import McpServerSettings
from engine.contract.failure import ConfigError
from engine.contract.strict_json import JsonError, read_json

OWN_NAME = "knackbox"  # the only server that remains for the client
MAX_BYTES = 1 << 20
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_TABLES = ("mcpServers", "servers")
_USED = frozenset({"command", "args", "env", "cwd", "url", "headers"})
_IGNORED = frozenset({"type", "disabled", "autoApprove", "alwaysAllow", "gallery", "version"})  # do not affect a server
_TRANSPORTS = frozenset({"stdio", "http", "streamable-http", "streamableHttp"})
_BEGIN = "# Imported by knackbox mcp import from {} (begin)"
_END = "# Imported by knackbox mcp import from {} (end)"


@dataclass(frozen=True, slots=True)
class ClientServers:
    """The content of a client's configuration.

    Attributes:
        document: The whole configuration.
        table: The key of its servers.
        usable: The definitions of the servers that Knackbox can run, by a name that is valid for a module.
        clients_names: The name of each of these servers in the client's configuration.
        left: Why each of the other servers stays with the client.
    """

    document: Mapping[str, Any]
    table: str
    usable: Mapping[str, Mapping[str, Any]]
    clients_names: Mapping[str, str]
    left: Mapping[str, str] = field(default_factory=dict)

    def without_usable(self, own: Mapping[str, Any]) -> bytes:
        """Return the configuration with Knackbox instead of the servers that it can run.

        Args:
            own: The definition of Knackbox as a server.
        """
        gone = set(self.clients_names.values())
        kept = {name: server for name, server in self.document[self.table].items() if name not in gone}
        changed = {**self.document, self.table: {**kept, OWN_NAME: own}}
        text = json.dumps(changed, indent=2, ensure_ascii=False)
        return f"{json.dumps(changed, indent=2) if _SURROGATE.search(text) else text}\n".encode()


def read_client_servers(data: bytes, taken: Sequence[str]) -> ClientServers:
    """Read a client's configuration.

    Args:
        data: The content of the file.
        taken: Names of modules that are already used.

    Raises:
        ConfigError: It is not JSON, or has no servers.
    """
    if len(data) > MAX_BYTES:
        raise ConfigError(f"The file is larger than {MAX_BYTES >> 20} MiB, so it is not a client's configuration.")
    try:
        document = read_json(data)
    except JsonError as error:
        raise ConfigError(f"The file is not valid JSON ({error}). Remove comments and trailing commas.") from error
    table = next((key for key in _TABLES if isinstance(document, dict) and isinstance(document.get(key), dict)), None)
    if table is None:
        raise ConfigError(f"The file has neither an object {_TABLES[0]} nor {_TABLES[1]}, so it has no MCP servers.")
    usable: dict[str, Mapping[str, Any]] = {}
    names: dict[str, str] = {}
    left: dict[str, str] = {}
    for name, server in document[table].items():
        if name == OWN_NAME:
            continue
        if problem := next(_obstacles(server), ""):
            left[name] = problem
            continue
        ours = _module_name(name, {*taken, *usable})
        usable[ours] = {key: server[key] for key in sorted(_USED & server.keys())}
        names[ours] = name
    return ClientServers(document, table, usable, names, left)


def with_servers(config: str, source: str, servers: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text of `config.toml` with servers added at its end, between two comments.

    Args:
        config: The present text.
        source: The path of the client's file, for the comments.
        servers: The definitions, by name.
    """
    lines = [_BEGIN.format(_comment(source))]
    for name, server in servers.items():
        lines.append(f"[mcp_servers.{name}]")
        lines += [f"{key} = {_toml(value)}" for key, value in server.items()]
    lines.append(_END.format(_comment(source)))
    before = config if not config or config.endswith("\n") else config + "\n"
    return before + "\n".join(lines) + "\n"


def without_servers(config: str, source: str) -> str:
    """Return the text of `config.toml` without the servers that `with_servers` added from a source.

    Raises:
        ConfigError: The comments that mark them are not there.
    """
    begin, end = (re.escape(each.format(_comment(source))) for each in (_BEGIN, _END))
    rest, count = re.subn(rf"^{begin}\n.*?^{end}\n", "", config, flags=re.MULTILINE | re.DOTALL)
    if not count:
        raise ConfigError(f"config.toml has no servers marked as imported from {source}. Remove them by hand.")
    return rest


def _obstacles(server: Any) -> Iterator[str]:
    """Yield the reasons why Knackbox cannot run a server. Only the first one is certain to be correct."""
    if not isinstance(server, dict):
        yield "its definition is not an object"
        return
    if server.get("disabled") is True:
        yield "it is disabled"
    transport = server.get("type", "stdio" if "command" in server else "http")
    if transport not in _TRANSPORTS:
        yield f"the transport {transport} is not supported"
    if unknown := sorted(server.keys() - _USED - _IGNORED):
        yield f"{unknown[0]} is not supported"
    used = {key: server[key] for key in _USED & server.keys()}
    text = json.dumps(used, ensure_ascii=False)
    if "${" in text:
        yield "it contains ${…}, which only the client can replace"
    if _SURROGATE.search(text):
        yield "it contains half of a surrogate pair"
    try:
        McpServerSettings.model_validate(used)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        yield f"{'.'.join(map(str, first['loc']))}: {first['msg']}".lstrip(": ")


def _module_name(name: str, taken: set[str]) -> str:
    """Return a name that is valid and free, as similar as possible."""
    base = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:56].strip("_") or "server"
    number, found = 1, base
    while found in taken:
        number += 1
        found = f"{base}_{number}"
    return found


def _comment(text: str) -> str:
    return json.dumps(text)


def _toml(value: Any) -> str:
    """Return a value of a definition as TOML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(str(key))} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # A JSON string is a basic string of TOML, except for DEL.
    text = json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    assert tomllib.loads(f"value = {text}")["value"] == str(value)  # noqa: S101 -- a wrong value would be a wrong command
    return text
