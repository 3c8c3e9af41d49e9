"""Commands import no slow libraries that they do not need. `knackbox bench start` measures the time."""

import re
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from engine.app.plugins import COMMANDS, own
from engine.interfaces.cli.lazy import summary_of
from tests.interfaces.cli import run_as_process

# The packages that take longest to import. None is needed by the commands here.
SLOW = frozenset(
    {
        "chromadb",
        "httpx",
        "httpx2",
        "mcp",
        "mcp_types",
        "numpy",
        "openai",
        "pandas",
        "pydantic_ai",
        "ruamel",
        "sqlalchemy",
    }
)


def imported(*arguments: str, home: object = "") -> set[str]:
    """Return the modules that a command imports, and their top-level packages."""
    environ = {"KNACKBOX_HOME": str(home)} if home else None
    done = run_as_process(*arguments, python=("-X", "importtime"), environ=environ)
    assert done.code == 0, done.err[-2000:]
    names = set(re.findall(r"^import time: +\d+ \| +\d+ \| +(\S+)$", done.err, re.MULTILINE))
    assert "typer" in names  # otherwise nothing was parsed
    return names | {name.partition(".")[0] for name in names}


@pytest.mark.spec("FACE-11")
@pytest.mark.parametrize("arguments", [("--help",), ("exec", "--help"), ("--version",)], ids=" ".join)
def test_help_imports_no_library_that_only_engines_need(arguments: tuple[str, ...]) -> None:
    found = imported(*arguments)
    assert not found & (SLOW | {"rich"})


@pytest.mark.spec("FACE-11")
def test_the_list_of_commands_imports_neither_settings_nor_the_event_loop() -> None:
    assert not imported("--help") & {"pydantic", "asyncio", "platformdirs"}


@pytest.mark.spec("FACE-11")
def test_listing_tools_imports_no_numpy_and_no_network_clients(tmp_path: Path) -> None:
    found = imported("tools", home=tmp_path)
    assert "sqlalchemy" in found  # an engine was opened
    assert not found & {"chromadb", "httpx", "httpx2", "mcp", "numpy", "openai", "pandas", "pydantic_ai"}


@pytest.mark.spec("FACE-11")
def test_running_code_imports_no_database_and_without_a_configuration_no_settings(tmp_path: Path) -> None:
    code = tmp_path / "code.py"
    code.write_text("6 * 7")
    found = imported("exec", "python", str(code), home=tmp_path / "home")
    assert "sandbox.forkserver.server" in found  # a box was made
    assert not found & (SLOW | {"rich", "packaging", "engine.app.settings"})


@pytest.mark.spec("FACE-1", "FACE-11")
def test_the_list_of_commands_says_what_those_of_packs_do_without_importing_them() -> None:
    names = [point.name for point in own(COMMANDS)]
    shown = run_as_process("--help").out
    lines = dict(re.findall(rf"^  ({'|'.join(names)}) +(\S.*)$", shown, re.MULTILINE))
    assert set(lines) == set(names)
    assert not [line for line in lines.values() if line.startswith("Commands of")]
    assert not imported("--help") & {"builtin_tools.memory.commands.app", "acquired_skills.commands.app"}


@pytest.mark.spec("FACE-1")
@pytest.mark.parametrize("module", ["no_such_package.commands", "json.no_such_module"])
def test_a_command_of_a_broken_pack_is_listed(module: str) -> None:
    assert summary_of(EntryPoint("broken", f"{module}:app", COMMANDS)) == f"Commands of {module.partition('.')[0]}."
