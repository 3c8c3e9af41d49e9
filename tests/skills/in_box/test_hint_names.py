"""Type hints with names that only a type checker imports (SKILL-3). The modules here are ours, so nothing needs a box."""

import datetime as dt
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from acquired_skills.in_box.hint_names import resolved_hints

pytestmark = pytest.mark.spec("SKILL-3")
HEAD = "from __future__ import annotations\n\nfrom typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n"


def module(folder: Path, source: str) -> ModuleType:
    path = folder / "hinted.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("hinted", path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["hinted"] = made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_names_imported_for_type_checkers_are_resolved(tmp_path: Path) -> None:
    source = f"{HEAD}    import datetime as dt\n    from collections.abc import Iterable\n    Number = int | float\n"
    made = module(tmp_path, f"{source}\ndef count(days: Iterable[dt.date], least: Number) -> int: ...\n")
    assert resolved_hints(made.count) == {"days": Iterable[dt.date], "least": int | float, "return": int}


def test_a_name_that_cannot_be_imported_accepts_any_value(tmp_path: Path) -> None:
    source = (
        f"{HEAD}    from _typeshed import SupportsRead\n    from . import elsewhere\n    Both = elsewhere.Kind | int\n"
    )
    made = module(tmp_path, f"{source}\ndef read(file: SupportsRead, kind: Both) -> str: ...\n")
    assert resolved_hints(made.read) == {"file": Any, "kind": Any, "return": str}


def test_an_undefined_name_in_a_hint_is_an_error(tmp_path: Path) -> None:
    made = module(
        tmp_path, f"{HEAD}    from collections.abc import Iterable\n\ndef count(days: Itreable) -> int: ...\n"
    )
    with pytest.raises(NameError, match="Itreable"):
        resolved_hints(made.count)
