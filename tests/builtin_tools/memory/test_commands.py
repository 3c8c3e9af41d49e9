"""`knackbox memory` for people."""

import json
from pathlib import Path

import pytest

from tests.interfaces.cli import Ran, here

pytestmark = [pytest.mark.spec("MEM-10"), pytest.mark.slow]


def memory(capfd: pytest.CaptureFixture[str], home: Path, *arguments: str) -> Ran:
    return here(capfd, "--home", str(home), "memory", *arguments)


def test_facts_are_added_searched_shown_and_forgotten(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "home"
    assert memory(capfd, home, "list").err.endswith("the memory is empty.\n")
    first = memory(capfd, home, "add", "Ada moved to Rome in 2015.", "--json").last["entry"]
    second = memory(capfd, home, "add", "Ada moved to Oslo in 2020.", "--json").last
    assert [each["id"] for each in second["replaced"]] == [first["id"]]
    now = memory(capfd, home, "search", "Where does Ada live?")
    assert "Oslo" in now.out
    assert "Rome" not in now.out
    past = memory(capfd, home, "search", "Where does Ada live?", "--as-of", "2018-01-01", "--json")
    assert [hit["text"] for hit in past.last["hits"]] == ["Ada moved to Rome in 2015."]
    shown = memory(capfd, home, "show", first["id"])
    assert shown.out.index("Rome") < shown.out.index("Oslo")
    assert "said by local" in shown.out
    assert memory(capfd, home, "show", first["id"], "--user", "bob").code == 2
    refused = memory(capfd, home, "forget", "Oslo")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert memory(capfd, home, "forget", "Oslo", "--yes", "--json").last == {
        "deleted": 1,
        "documents": 0,
        "still_in": [],
    }
    assert [each["text"] for each in memory(capfd, home, "list", "--json").last] == ["Ada moved to Rome in 2015."]


def test_an_export_is_imported_into_another_home(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    one, two, file = tmp_path / "one", tmp_path / "two", tmp_path / "memory.jsonl"
    memory(capfd, one, "add", "Ada lives in Rome.", "--space", "shared:household")
    assert memory(capfd, one, "export", "-o", str(file)).code == 0
    assert [next(iter(json.loads(line))) for line in file.read_text().splitlines()] == ["knackbox_memory", "entry"]
    assert memory(capfd, two, "import", str(file), "--json").last == {"entries": 1, "documents": 0, "known": 0}
    assert memory(capfd, two, "list", "--json").last == memory(capfd, one, "list", "--json").last
    file.write_text("{}")
    refused = memory(capfd, two, "import", str(file))
    assert (refused.code, "Line 1 is not the header" in refused.err) == (2, True)


def test_exactly_one_thing_to_forget_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert memory(capfd, tmp_path / "home", "forget").code == 2
    assert memory(capfd, tmp_path / "home", "forget", "x", "--everything").code == 2
