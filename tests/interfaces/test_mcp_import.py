"""`knackbox mcp import` moves a client's servers behind Knackbox, and `--restore` gives back exactly what was there."""

import json
import tomllib
from pathlib import Path
from typing import Any

import hypothesis.strategies as some
import pytest
from hypothesis import given

from engine.app.client_servers import read_client_servers, with_servers, without_servers
from engine.app.config import load_settings
from engine.app.home import Home
from tests.interfaces.cli import here

pytestmark = [pytest.mark.spec("CODE-6")]

DESKTOP = {
    "globalShortcut": "Ctrl+Ü",
    "mcpServers": {
        "my files": {"command": "npx", "args": ["-y", "files", "/srv/ä"], "env": {"KEY": 's3cret "quoted" \\ \t'}},
        "far": {"type": "http", "url": "https://far.example/mcp", "headers": {"Authorization": "Bearer s3cret"}},
        "old": {"type": "sse", "url": "https://old.example/sse"},
        "asks": {"command": "x", "env": {"KEY": "${input:key}"}},
        "off": {"command": "x", "disabled": True},
        "odd": {"command": "x", "envFile": ".env"},
        "both": {"command": "x", "url": "https://far.example/mcp"},
    },
}
CONFIG = '# mine\n[mcp_servers.far]\nurl = "https://mine.example/mcp"'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "home"
    root.mkdir()
    (root / "config.toml").write_text(CONFIG)
    monkeypatch.setenv("KNACKBOX_HOME", str(root))
    return root


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "claude_desktop_config.json"
    path.write_text(json.dumps(DESKTOP, indent=3, ensure_ascii=False))
    return path


def test_servers_are_moved_and_given_back(home: Path, file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    original = file.read_bytes()
    ran = here(capfd, "mcp", "import", str(file), "--json")
    assert ran.code == 0, ran.err
    assert ran.last["imported"] == {"my_files": "my files", "far_2": "far"}
    assert set(ran.last["left"]) == {"old", "asks", "off", "odd", "both"}
    settings = load_settings(Home(home), {})
    assert set(settings.mcp_servers) == {"far", "my_files", "far_2"}
    files = settings.mcp_servers["my_files"]
    assert (files.command, files.args) == ("npx", ("-y", "files", "/srv/ä"))
    assert files.env["KEY"].get_secret_value() == 's3cret "quoted" \\ \t'
    assert settings.mcp_servers["far_2"].headers["Authorization"].get_secret_value() == "Bearer s3cret"
    client = json.loads(file.read_text())
    assert client["globalShortcut"] == DESKTOP["globalShortcut"]
    assert set(client["mcpServers"]) == {"old", "asks", "off", "odd", "both", "knackbox"}
    assert client["mcpServers"]["knackbox"]["args"][-5:] == ["--home", str(home), "mcp", "--tools", "code"]
    backup = Path(ran.last["backup"])
    assert backup.read_bytes() == original
    assert {(each.stat().st_mode & 0o077) for each in (backup, home / "config.toml")} == {0}
    assert here(capfd, "mcp", "import", str(file)).code != 0  # the backup is not overwritten
    assert here(capfd, "mcp", "import", str(file), "--restore").code == 0
    assert file.read_bytes() == original
    assert (home / "config.toml").read_text() == CONFIG + "\n"
    assert not backup.exists()
    assert here(capfd, "mcp", "import", str(file), "--restore").code != 0


def test_what_was_changed_after_the_import_is_kept(home: Path, file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    original = file.read_bytes()
    assert here(capfd, "mcp", "import", str(file)).code == 0
    file.write_text('{"mcpServers": {"new": {"command": "y"}}}')
    ran = here(capfd, "mcp", "import", str(file), "--restore")
    assert ran.code == 0
    assert file.read_bytes() == original
    assert '"new"' in file.with_name(f"{file.name}.with-knackbox").read_text()


def test_an_interrupted_import_can_be_repeated(home: Path, file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    original = file.read_bytes()
    assert here(capfd, "mcp", "import", str(file)).code == 0
    file.write_bytes(original)  # as if it had been killed before the last step
    assert here(capfd, "mcp", "import", str(file)).code == 0
    assert set(load_settings(Home(home), {}).mcp_servers) == {"far", "my_files", "far_2"}
    assert here(capfd, "mcp", "import", str(file), "--restore").code == 0
    assert (file.read_bytes(), (home / "config.toml").read_text()) == (original, CONFIG + "\n")


def test_a_symbolic_link_is_kept_and_its_target_is_changed(
    home: Path, file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(file)
    assert here(capfd, "mcp", "import", str(link)).code == 0
    assert link.is_symlink()
    assert "knackbox" in json.loads(file.read_text())["mcpServers"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not valid JSON"),
        ("// a comment\n{}", "Remove comments"),
        ("[]", "neither"),
        ('{"mcpServers": []}', "neither"),
        ('{"servers": {}}', "no servers that can be imported"),
        ('{"servers": {"a": {"type": "sse", "url": "https://a"}}}', "the transport sse"),
    ],
)
def test_a_file_without_usable_servers_is_refused_and_nothing_changes(
    home: Path, file: Path, capfd: pytest.CaptureFixture[str], content: str, said: str
) -> None:
    file.write_text(content)
    ran = here(capfd, "mcp", "import", str(file))
    assert ran.code != 0
    assert said in ran.err
    assert file.read_text() == content
    assert (home / "config.toml").read_text() == CONFIG
    assert {each.name for each in file.parent.iterdir()} == {"home", file.name}


texts = some.text(some.characters(exclude_categories=("Cs",)), max_size=12)
definitions = some.fixed_dictionaries(
    {"command": texts.filter(bool)},
    optional={"args": some.lists(texts, max_size=3), "env": some.dictionaries(texts, texts, max_size=3)},
)


@given(servers=some.dictionaries(texts, definitions, max_size=4), config=some.sampled_from(["", "# mine", CONFIG]))
def test_every_definition_survives_the_way_into_the_configuration_and_back(
    servers: dict[str, Any], config: str
) -> None:
    read = read_client_servers(json.dumps({"mcpServers": servers}).encode(), ["far"])
    assert len(read.usable) + len(read.left) + ("knackbox" in servers) == len(servers)
    if not read.usable:
        return
    written = with_servers(config, '/a "b"\nc.json', read.usable)
    tables = tomllib.loads(written)["mcp_servers"]
    assert {name: tables[name] for name in read.usable} == {
        ours: servers[theirs] for ours, theirs in read.clients_names.items()
    }
    assert without_servers(written, '/a "b"\nc.json').strip() == config
