"""The configuration names the time zones of users, and unknown names are refused."""

from pathlib import Path

import pytest

from engine.app.config import load_settings
from engine.app.home import Home
from engine.contract.failure import ConfigError
from engine.times.time_zones import local_zone, zones_of_users

pytestmark = pytest.mark.spec("MEM-4", "JOB-2")


def test_each_user_has_the_configured_zone(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[time]\nzone = "Europe/Berlin"\nzones = { ada = "America/New_York" }\n')
    time = load_settings(Home(tmp_path), {}).time
    zone_of = zones_of_users(time.zone, time.zones)
    assert zone_of("ada").key == "America/New_York"
    assert zone_of("bob").key == "Europe/Berlin"


def test_without_configuration_users_have_the_zone_of_the_machine() -> None:
    assert zones_of_users("", {})("ada") == local_zone()


@pytest.mark.parametrize("line", ['zone = "Mars/Olympus"', 'zones = { ada = "Mars/Olympus" }'])
def test_an_unknown_zone_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "config.toml").write_text(f"[time]\n{line}\n")
    with pytest.raises(ConfigError, match="is not a time zone"):
        load_settings(Home(tmp_path), {})
