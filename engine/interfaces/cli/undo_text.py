"""The changes of an undo as text: a line for each path, and the differences of texts."""

import difflib
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from engine.stores.undo.file_state import FileState
from engine.stores.undo.kept_contents import KeptContents
from engine.stores.undo.undo_plan import PlannedPath

MOST_FILE_LINES = 40  # of the differences of one file
MOST_LINES = 400  # of all differences
_MOST_BYTES = 256 << 10  # of a text that is compared
_BINARY_HEAD = 8192


def action_of(plan: PlannedPath) -> str:
    """Return what an undo does with a path, as one word: ``"create"``, ``"delete"``, ``"restore"`` or ``"mode"``."""
    if plan.now is None:
        return "create"
    if plan.wanted is None:
        return "delete"
    same = (plan.now.kind, plan.now.size, plan.now.content) == (plan.wanted.kind, plan.wanted.size, plan.wanted.content)
    return "mode" if same else "restore"


def line_of(plan: PlannedPath) -> str:
    """Return one line about a path, such as ``restore notes.txt (5 bytes, now 8 bytes)``."""
    name = _one_line(plan.path)
    action = action_of(plan)
    if action == "mode" and plan.now is not None and plan.wanted is not None:
        return f"  mode     {name} ({plan.wanted.mode:03o}, now {plan.now.mode:03o})"
    before, now = _described(plan.wanted), _described(plan.now)
    detail = {"create": before, "delete": now}.get(action) or f"{before}, now {now}"
    return f"  {action:<8} {name} ({detail})"


def as_object(plan: PlannedPath) -> dict[str, Any]:
    """Return a path of an undo as a JSON object."""
    return {
        "path": plan.path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"),
        "action": action_of(plan),
        "step": str(plan.step),
        "reason": plan.reason,
        "now": _state(plan.now),
        "before": _state(plan.wanted),
    }


def differences(contents: KeptContents, plans: Sequence[PlannedPath]) -> str:
    """Return the differences of texts that an undo makes, up to `MOST_LINES` lines."""
    lines: list[str] = []
    for plan in plans:
        found = list(islice(_difference(contents, plan), MOST_FILE_LINES + 1))
        if len(found) > MOST_FILE_LINES:
            found[-1] = "  … more lines differ"
        if len(lines) + len(found) > MOST_LINES:
            return "\n".join([*lines, "… more files differ"])
        lines += found
    return "\n".join(lines)


def _difference(contents: KeptContents, plan: PlannedPath) -> Iterator[str]:
    if action_of(plan) != "restore":
        return
    now, wanted = _text(contents, plan.now), _text(contents, plan.wanted)
    if now is None or wanted is None:
        return
    name = _one_line(plan.path)
    for line in difflib.unified_diff(now, wanted, f"{name} (now)", f"{name} (after the undo)", n=2, lineterm=""):
        yield f"  {line}"


def _text(contents: KeptContents, state: FileState | None) -> list[str] | None:
    """Return the lines of a file; None if it is no text, or too large."""
    if state is None or state.kind != "file" or not state.kept or state.size > _MOST_BYTES:
        return None
    try:
        with contents.opened(state.content) as stream:
            data = stream.read()
        return None if b"\0" in data[:_BINARY_HEAD] else data.decode().splitlines()
    except (OSError, UnicodeDecodeError):
        return None


def _described(state: FileState | None) -> str:
    if state is None:
        return "absent"
    return f"{state.size:,} bytes" if state.kind == "file" else state.kind


def _state(state: FileState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {"kind": state.kind, "mode": f"{state.mode:03o}", "size": state.size}


def _one_line(name: str) -> str:
    plain = name.isprintable() and name == name.strip()
    return name if plain else json.dumps(name)
