"""The folder with an engine's data."""

from pathlib import Path

import pytest

from engine.app.home import Home
from engine.contract.failure import ConfigError


def test_an_explicit_home_overrides_the_variable_and_the_variable_the_default(tmp_path: Path) -> None:
    environ = {"KNACKBOX_HOME": str(tmp_path / "variable")}
    assert Home.locate(tmp_path / "given", environ).root == tmp_path / "given"
    assert Home.locate(None, environ).root == tmp_path / "variable"
    assert Home.locate(None, {}).root.name == "knackbox"


def test_a_relative_home_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Home.locate("here", {}).root == tmp_path / "here"


def test_the_home_is_private_to_its_owner(tmp_path: Path) -> None:
    home = Home(tmp_path / "new" / "home")
    home.create()
    home.create()
    assert home.root.stat().st_mode & 0o777 == 0o700


def test_a_home_that_cannot_be_created_is_reported_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file/home: cannot be used as the home .*--home"):
        Home(tmp_path / "file" / "home").create()
