"""What commands import before they do anything. Modules are counted, not seconds: the time is in `knackbox bench start`."""

import re
from pathlib import Path

import pytest

from tests.interfaces.cli import apart

# What takes longest to import. Each is needed by something, and by nothing here.
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
    """The modules that a command imports, and the top-level packages they are of."""
    environ = {"KNACKBOX_HOME": str(home)} if home else None
    done = apart(*arguments, python=("-X", "importtime"), environ=environ)
    assert done.code == 0, done.err[-2000:]
    names = set(re.findall(r"^import time: +\d+ \| +\d+ \| +(\S+)$", done.err, re.MULTILINE))
    assert "typer" in names  # else this looks at nothing
    return names | {name.partition(".")[0] for name in names}


@pytest.mark.spec("FACE-11")
@pytest.mark.parametrize("arguments", [("--help",), ("exec", "--help"), ("--version",)], ids=" ".join)
def test_help_imports_no_library_that_only_an_engine_needs(arguments: tuple[str, ...]) -> None:
    found = imported(*arguments)
    assert not found & (SLOW | {"rich"})


@pytest.mark.spec("FACE-11")
def test_the_list_of_commands_imports_neither_settings_nor_the_event_loop() -> None:
    assert not imported("--help") & {"pydantic", "asyncio", "platformdirs"}


@pytest.mark.spec("FACE-11")
def test_listing_the_tools_imports_no_numpy_and_no_client_for_models_vectors_or_the_network(tmp_path: Path) -> None:
    found = imported("tools", home=tmp_path)
    assert "sqlalchemy" in found  # an engine was opened
    assert not found & {"chromadb", "httpx", "httpx2", "mcp", "numpy", "openai", "pandas", "pydantic_ai"}


@pytest.mark.spec("FACE-11")
def test_running_code_imports_no_database_and_where_nothing_is_configured_no_settings(tmp_path: Path) -> None:
    code = tmp_path / "code.py"
    code.write_text("6 * 7")
    found = imported("exec", "python", str(code), home=tmp_path / "home")
    assert "sandbox.forkserver.server" in found  # a box was made
    assert not found & (SLOW | {"rich", "packaging", "engine.app.settings"})
