"""Commands that are imported only when they run, so that `knackbox --help` and `knackbox exec` start quickly."""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from engine.app.plugins import COMMANDS, find, named
from engine.contract.failure import ConfigError

_COMPLETION = frozenset({"install_completion", "show_completion"})


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """A command of this package: the module that defines the command as `app`, and the command's line in the help."""

    module: str
    help: str


class LazyCommand(TyperCommand):
    """A placeholder that shows a command in the help and loads the real command when it is invoked."""

    def __init__(self, name: str, help_line: str, load: Callable[[], Any]) -> None:
        super().__init__(name=name, help=help_line, short_help=help_line, rich_markup_mode=None)
        self._load = load

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return self._load().make_context(info_name, args, parent=parent, **extra)


class LazyPlugin(LazyCommand):
    """A placeholder for a command of a pack, whose line in the help is read only when it is shown."""

    def __init__(self, point: EntryPoint) -> None:
        super().__init__(point.name, "", lambda: load_plugin(point))
        self._point = point

    def get_short_help_str(self, limit: int = 45) -> str:  # noqa: ARG002 -- required by the base class
        return summary_of(self._point)


def load_own(name: str, own: OwnCommand) -> Any:
    """Import a command of this package."""
    return command_of(import_module(own.module).app, name)


def command_of(app: typer.Typer, name: str) -> Any:
    """Return the command of a Typer app, renamed to `name`.

    Its help is plain text, because loading rich would take longer than loading the command. The options that install
    shell completion are removed, because `knackbox` does not have shell completion.
    """
    app.rich_markup_mode = None
    command = typer.main.get_command(app)
    command.name = name
    command.params = [each for each in command.params if each.name not in _COMPLETION]
    return command


def load_plugin(point: EntryPoint) -> Any:
    """Import the command of an entry point.

    Raises:
        ConfigError: The pack that provides the command is broken.
    """
    try:
        found = point.load()
    except Exception as error:
        raise ConfigError(
            f"the command {point.name} ({point.value}) cannot be loaded: {type(error).__name__}: {error}. "
            "Repair or uninstall the pack that provides it."
        ) from error
    if not isinstance(found, typer.Typer):
        raise ConfigError(f"the command {point.name} ({point.value}) is not a typer.Typer. Repair the pack.")
    return command_of(found, point.name)


def summary_of(point: EntryPoint) -> str:
    """Return the first line of the docstring of the module that defines a command, which is read but not imported."""
    try:
        spec = find_spec(point.module)
        source = Path(spec.origin).read_bytes() if spec is not None and spec.origin is not None else b""
        docstring = ast.get_docstring(ast.parse(source)) or ""
    except Exception:  # noqa: BLE001 -- a broken pack says what is wrong when its command is used
        docstring = ""
    return docstring.partition("\n")[0] or f"Commands of {point.module.partition('.')[0]}."


class LazyGroup(TyperGroup):
    """A command group that lists the commands of this package, followed by the commands of packs."""

    own: Mapping[str, OwnCommand] = {}

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 -- required by the base class
        plugins = [point.name for point in find(COMMANDS) if point.name not in self.own]
        return [*self.own, *plugins]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 -- required by the base class
        own = self.own.get(cmd_name)
        if own is not None:
            return LazyCommand(cmd_name, own.help, lambda: load_own(cmd_name, own))
        plugin = named(COMMANDS, cmd_name)
        if plugin is None:
            return None
        return LazyPlugin(plugin)
