"""`knackbox secrets` and `knackbox doctor` show where values come from, and never the values."""

from pathlib import Path

import pytest

from tests.interfaces.cli import here

pytestmark = pytest.mark.spec("CODE-7", "FACE-1")
VALUE = "a value that nobody must see"
CONFIG = """
[secrets.WEATHER_KEY]
from = "env:WEATHER_KEY"
hosts = ["api.example.com:443"]
tools = ["fetch_weather"]
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KNACKBOX_HOME", str(tmp_path))
    monkeypatch.setenv("WEATHER_KEY", VALUE)
    (tmp_path / "config.toml").write_text(CONFIG)
    return tmp_path


def test_secrets_are_listed_without_their_values(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    listed = here(capfd, "secrets", "list", "--json")
    assert listed.code == 0
    (found,) = listed.last["secrets"]
    assert (found["name"], found["source"], found["found"]) == ("WEATHER_KEY", "env:WEATHER_KEY", True)
    assert (found["hosts"], found["tools"]) == (["api.example.com:443"], ["fetch_weather"])
    table = here(capfd, "secrets", "check")
    assert table.code == 0
    assert "WEATHER_KEY" in table.out
    assert VALUE not in f"{listed} {table}"


def test_check_fails_for_a_missing_a_short_and_an_exposed_value(
    home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEATHER_KEY", "tiny!")
    short = here(capfd, "secrets", "check")
    assert (short.code, "at least 8" in " ".join(short.out.split())) == (1, True)
    assert "tiny!" not in f"{short}"
    monkeypatch.delenv("WEATHER_KEY")
    missing = here(capfd, "secrets", "check", "--json")
    assert missing.code == 1
    assert "WEATHER_KEY is not set" in missing.last["secrets"][0]["problem"]
    assert here(capfd, "secrets", "list").code == 0
    key = home / "key"
    key.write_text(VALUE)
    key.chmod(0o644)
    (home / "config.toml").write_text(f"[secrets.KEY]\nfrom = 'file:{key}'\n")
    exposed = here(capfd, "secrets", "check", "--json")
    assert exposed.code == 1
    assert "chmod 600" in exposed.last["secrets"][0]["exposed"]
    assert VALUE not in f"{missing} {exposed}"


def test_without_secrets_the_command_says_how_to_configure_one(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (home / "config.toml").write_text("")
    shown = here(capfd, "secrets", "list")
    assert shown.code == 0
    assert "[secrets.NAME]" in shown.err


@pytest.mark.slow
def test_doctor_reports_each_secret(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    report = here(capfd, "--unsafe-no-sandbox", "doctor", "--json")
    (check,) = [each for each in report.last["checks"] if each["group"] == "secrets"]
    assert (check["name"], check["state"]) == ("WEATHER_KEY", "ok")
    assert "api.example.com:443" in check["detail"]
    assert VALUE not in f"{report}"
