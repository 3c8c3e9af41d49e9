"""`knackbox modules`, and the configuration of modules."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.app.config import load_settings
from engine.app.home import Home
from engine.contract.failure import ConfigError
from tests.interfaces.cli import here
from tests.remote.elsewhere import WEATHER, Elsewhere, elsewhere, manifest_of, tool_of

CLOCK = manifest_of("clock", tool_of("clock.now"), tool_of("clock.odd", parameters={"type": "array"}))


@contextmanager
def served(manifest: object, servers: list[Elsewhere] | None = None) -> Iterator[str]:
    """Run a module in a separate thread, since the command uses the event loop of this one.

    The server is added to `servers`, if given, so that its answers can be changed.
    """
    urls: list[str] = []
    up, done = threading.Event(), threading.Event()

    async def serve() -> None:
        async with elsewhere(manifest) as server:
            urls.append(server.url)
            if servers is not None:
                servers.append(server)
            up.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert up.wait(30)
        yield urls[0]
    finally:
        done.set()
        thread.join(30)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KNACKBOX_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.spec("MOD-2", "FACE-1")
def test_modules_are_listed_refreshed_and_checked(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with served(WEATHER) as weather, served(CLOCK) as clock:
        services = f'weather = "{weather}"\nclock = "{clock}"\ngone = "http://127.0.0.1:9"'
        (home / "config.toml").write_text(f"[modules.module_services]\n{services}\n")
        listed = here(capfd, "modules", "list", "--json")
        assert [each["reachable"] for each in listed.last["modules"]] == [None, None, None]
        refreshed = here(capfd, "modules", "refresh", "--json")
        assert refreshed.code == 1
        states = {each["name"]: each for each in refreshed.last["modules"]}
        assert states["weather"]["tools"] == ["weather.now", "weather.set.alarm"]
        assert states["clock"]["left_out"][0][0] == "clock.odd"
        assert states["gone"]["reachable"] is False
        assert here(capfd, "modules", "refresh", "weather").code == 0
        assert here(capfd, "modules", "refresh", "clock").code == 0
        checked = here(capfd, "modules", "check", "clock")
        assert checked.code == 1
        assert "clock.odd" in checked.out
    wrong = here(capfd, "modules", "refresh", "wether")
    assert wrong.code == 2
    assert wrong.err == "knackbox: Unknown module: wether. Configured: clock, gone, weather.\n"
    later = here(capfd, "modules", "list", "--json")  # the modules are down, their manifests are cached
    assert [len(each["tools"]) for each in later.last["modules"]] == [1, 0, 2]
    doctor = here(capfd, "doctor", "--json")
    assert {each["name"] for each in doctor.last["checks"] if each["group"] == "modules"} == {
        "clock",
        "gone",
        "weather",
    }


@pytest.mark.spec("MOD-2")
def test_without_modules_the_command_names_the_settings(capfd: pytest.CaptureFixture[str]) -> None:
    ran = here(capfd, "modules", "list")
    assert ran.code == 0
    assert "module_services" in ran.err


@pytest.mark.spec("MOD-4", "MOD-6")
def test_modules_are_configured_in_the_file_or_the_environment(home: Path) -> None:
    (home / "config.toml").write_text(
        '[modules]\nslow_modules = ["research"]\n[modules.module_services]\nresearch = "http://r:1/x"\n'
        '[mcp_servers.files]\ncommand = "files"\nargs = ["-v"]\nenv = {KEY = "k"}\n'
    )
    settings = load_settings(Home(home), {"KNACKBOX_MODULES_DEFAULT_GUEST_MODULES": "a, b"})
    assert settings.modules.tool_execution_timeout == 120
    assert settings.modules.module_services == {"research": "http://r:1/x"}
    assert [name.strip() for name in settings.modules.default_guest_modules] == ["a", "b"]
    assert settings.mcp_servers["files"].env["KEY"].get_secret_value() == "k"
    both = load_settings(Home(home / "none"), {"KNACKBOX_MODULES_MODULE_SERVICES": "a=http://a:1,b=http://b:2"})
    assert both.modules.module_services == {"a": "http://a:1", "b": "http://b:2"}


@pytest.mark.spec("MOD-4", "MOD-6")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[modules.module_services]\n"a.b" = "http://a"\n', "cannot name a module"),
        ('[modules.module_services]\na = "ftp://a"\n', "not an http or https URL"),
        ('[modules.module_services]\na = "http://me:s3cret@a"\n', "set a token in module_tokens"),
        ('[mcp_servers.a]\nurl = "https://s3cret@a/mcp"\n', "set headers"),
        ('[modules]\nmodule_tokens = {a = "s3cret"}\n', "module_services does not"),
        ('[mcp_servers.a]\ncommand = "x"\nurl = "http://a"\n', "either a command or a url"),
        ("[mcp_servers.a]\n", "either a command or a url"),
        ('[mcp_servers.a]\ncommand = "x"\nenv = {KEY = 1}\n', "mcp_servers.a.env.KEY"),
        (
            '[modules.module_services]\na = "http://a"\n[mcp_servers.a]\ncommand = "x"\n',
            "module_services and mcp_servers both contain a",
        ),
        ("[modules]\ntimeout = 3\n", "modules.timeout is not a setting"),
    ],
)
def test_an_invalid_module_setting_is_reported_in_one_line(home: Path, text: str, said: str) -> None:
    (home / "config.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings(Home(home), {})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)
