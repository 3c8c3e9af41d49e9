"""Tables on stdout, for whoever reads them there."""

import pytest

from engine.faces.cli.shared import print_table

pytestmark = pytest.mark.spec("FACE-1")


def test_cells_are_whole_where_no_terminal_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    url = "http://127.0.0.1:45411"
    print_table(("name", "where", "why"), [("n" * 70, url, "w" * 300), ("short", url, "")])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1].split() == ["n" * 70, url, "w" * 300]
    assert lines[2].split() == ["short", url]
