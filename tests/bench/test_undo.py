"""The benchmark of undo measures workspaces of every size."""

import pytest
from rich.console import Console

from bench import undo


@pytest.mark.slow
@pytest.mark.spec("CODE-9")
def test_each_size_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "SIZES", (10, 20))
    rows = undo.bench(2, Console(quiet=True))
    assert {(row["code"], row["way"]) for row in rows} == {
        (code, way) for code in ("first", "one changed", "unchanged") for way in ("10 files", "20 files")
    }
