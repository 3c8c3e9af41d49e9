"""`knackbox mcp import`: takes over the MCP servers of a client's configuration, and gives them back with `--restore`.

The client's file is changed last, after a backup next to it. If the command is killed before that, the client still has
its servers, and the command can be repeated.
"""

import os
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import typer

from engine.app.client_servers import ClientServers, read_client_servers, with_servers, without_servers
from engine.app.config import load_settings
from engine.app.home import Home
from engine.contract.failure import ConfigError
from engine.interfaces.cli.settings import settings_of
from engine.interfaces.cli.shared import emit_json, say, wants_json
from engine.stores.atomic import write_atomic

BACKUP = ".before-knackbox"


def import_servers(ctx: typer.Context, file: Path, *, restore: bool, as_json: bool) -> None:
    """Import the servers of a client's configuration, or give them back, and report that."""
    home, settings = settings_of(ctx)
    path = file.resolve()
    if restore:
        restored(home, path)
        if wants_json(ctx, as_json):
            emit_json({"restored": str(path)})
        say(f"restored {path}.")
        return
    taken = [*settings.modules.module_services, *settings.mcp_servers, settings.http.module_name]
    servers = imported(home, path, taken)
    if wants_json(ctx, as_json):
        emit_json({"imported": dict(servers.clients_names), "left": dict(servers.left), "backup": str(backup_of(path))})
        return
    for name, why in servers.left.items():
        say(f"{name} stays with the client: {why}.")
    for ours, theirs in servers.clients_names.items():
        say(f"imported {theirs}" + (f" as {ours}." if ours != theirs else "."))
    say(f"{path} now starts Knackbox; its earlier content is in {backup_of(path)}. Start the client again.")


def imported(home: Home, path: Path, taken: list[str]) -> ClientServers:
    """Import a client's configuration.

    Args:
        home: The home whose configuration receives the servers.
        path: The client's file.
        taken: Names of modules that are already used.

    Raises:
        ConfigError: The file cannot be used, or was already imported.
    """
    data = _read(path)
    backup = backup_of(path)
    config = _read(home.config).decode() if home.config.exists() else ""
    if backup.exists():
        if backup.read_bytes() != data:
            raise ConfigError(f"{path} was already imported ({backup} exists). Use --restore first.")
        rest = _without(config, path)  # what an import added that was interrupted is replaced
        taken = sorted({*taken} - (_servers_of(config) - _servers_of(rest)))
        config = rest
    servers = read_client_servers(data, taken)
    if not servers.usable:
        left = "; ".join(f"{name}: {why}" for name, why in servers.left.items())
        raise ConfigError(f"{path} has no servers that can be imported{f' ({left})' if left else ''}. Nothing changed.")
    home.create()
    if not backup.exists():
        write_atomic(backup, data)
        backup.chmod(0o600)  # definitions of servers often contain keys
    _write_config(home, config, with_servers(config, str(path), servers.usable))
    write_atomic(path, servers.without_usable(own_definition(home)))
    return servers


def restored(home: Home, path: Path) -> None:
    """Undo the import of a client's configuration.

    A file that was changed since the import is kept next to it.

    Raises:
        ConfigError: There is no backup, or `config.toml` has no servers imported from this file.
    """
    backup = backup_of(path)
    if not backup.exists():
        raise ConfigError(f"{backup} does not exist, so {path} was not imported, or it was already restored.")
    config = _read(home.config).decode()
    data = backup.read_bytes()
    present = path.read_bytes() if path.exists() else b""
    expected = read_client_servers(data, []).without_usable(own_definition(home))
    if present not in {b"", data, expected}:
        changed = path.with_name(f"{path.name}.with-knackbox")
        write_atomic(changed, present)
        say(f"{path} was changed after the import; that version is kept as {changed}.")
    write_atomic(path, data)
    _write_config(home, config, without_servers(config, str(path)))
    backup.unlink()


def backup_of(path: Path) -> Path:
    return path.with_name(path.name + BACKUP)


def own_definition(home: Home) -> dict[str, Any]:
    """Return Knackbox as a server of a client."""
    installed = shutil.which("knackbox", path=str(Path(sys.executable).parent)) or shutil.which("knackbox")
    start = [installed] if installed else [sys.executable, "-m", "engine.interfaces.cli.main"]
    command, *arguments = [*start, "--home", str(home.root), "mcp", "--tools", "code"]
    return {"type": "stdio", "command": command, "args": arguments}


def _without(config: str, path: Path) -> str:
    try:
        return without_servers(config, str(path))
    except ConfigError:
        return config


def _servers_of(config: str) -> set[str]:
    return set(tomllib.loads(config).get("mcp_servers", {}))


def _write_config(home: Home, before: str, after: str) -> None:
    """Replace `config.toml`, but only by a valid configuration."""
    write_atomic(home.config, after.encode())
    home.config.chmod(0o600)
    try:
        load_settings(home, os.environ)
    except ConfigError:
        write_atomic(home.config, before.encode())
        raise


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {os.strerror(error.errno or 0)}.") from error
