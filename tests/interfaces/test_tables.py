"""Tables and text on stdout: their width, and their control characters."""

import json
import sys

import pytest

from engine.interfaces.cli.shared import emit, emit_json, say
from engine.interfaces.cli.tables import print_table

pytestmark = pytest.mark.spec("FACE-1")


def test_cells_are_not_folded_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    url = "http://127.0.0.1:45411"
    print_table(("name", "where", "why"), [("n" * 70, url, "w" * 300), ("short", url, "")])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1].split() == ["n" * 70, url, "w" * 300]
    assert lines[2].split() == ["short", url]


def test_columns_sets_the_width_of_a_table_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_table(("name", "why"), [("n" * 10, "w" * 300)])
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 40
    assert (out.count("n" * 10), out.count("w") - 1) == (1, 300)  # one is the heading's


def test_control_characters_are_escaped_on_a_terminal_and_kept_in_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = "a\x1b[2J\x07\x9b\u202e\U000e0041\r\tb\n"
    emit(evil)
    assert capsys.readouterr().out == evil
    monkeypatch.setenv("TERM", "dumb")  # so that nothing is printed in bold
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    emit(evil)
    print_table(("name",), [(evil,)])
    emit_json({"is": evil})
    say(evil)
    captured = capsys.readouterr()
    assert all(each.isprintable() or each in "\n\t" for each in captured.out + captured.err)
    assert "a\\x1b[2J\\x07\\x9b\\u202e\\U000e0041\\r\tb\n" in captured.out
    assert json.loads(captured.out.splitlines()[-1]) == {"is": evil}
