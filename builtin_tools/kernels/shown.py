"""Presents the outputs of a cell to models and programs: text, and files for everything else."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from builtin_tools.kernels.bundle import File, forms_of
from engine.stores.workspace import WorkspaceError
from sandbox.kernels.spec import Cell, Output

Keep = Callable[[File], str]
"""Writes a file and gives its path. Raises OSError, WorkspaceError."""

MOST_FILES = 20  # of one cell
MOST_BYTES = 32 << 20  # of its files together
VALUE_TEXT = 1 << 20  # characters of all outputs in the structured value; the message has all of it


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the message. label: stdout, stderr, value or display; "" for a line about a file."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class CellDisplay:
    """A cell's presented outputs. outputs: JSON of each, in order. paths: the written files."""

    parts: tuple[Part, ...]
    outputs: tuple[dict[str, Any], ...]
    paths: tuple[str, ...]

    @property
    def message(self) -> str:
        """Join the parts, with labels unless there is only one."""
        labelled = [part for part in self.parts if part.label]
        if len(labelled) == 1 and labelled[0].label != "stderr":
            return "\n".join(part.text for part in self.parts)
        return "\n".join(f"{part.label}:\n{part.text}" if part.label else part.text for part in self.parts)

    def stream(self, name: str) -> str:
        """Return everything printed to the stream, without the final newline."""
        return "\n".join(part.text for part in self.parts if part.label == name)


def show(cell: Cell, keep: Keep) -> CellDisplay:
    """Present a cell's outputs. Blocks, because it writes files. Errors are reported elsewhere."""
    budget = _Budget(keep)
    parts: list[Part] = []
    outputs: list[dict[str, Any]] = []
    room = VALUE_TEXT
    for output in cell.outputs:
        if output.kind == "error":
            continue
        before = len(parts)
        described = {"kind": output.kind, **_described(output, budget, parts)}
        text = "\n".join(part.text for part in parts[before:] if part.label)
        if text:
            described["text"] = text[:room]
            room -= len(described["text"])
        outputs.append(described)
    if cell.dropped_bytes:
        parts.append(Part("", f"[{cell.dropped_bytes:,} bytes of output were too much and are not kept]"))
    return CellDisplay(tuple(parts), tuple(outputs), tuple(budget.paths))


def _described(output: Output, budget: "_Budget", parts: list[Part]) -> dict[str, Any]:
    if output.kind == "stream":
        text = output.text.rstrip("\n")
        if text:
            parts.append(Part("stderr" if output.name == "stderr" else "stdout", text))
        return {"name": output.name}
    forms = forms_of(output.data)
    if forms.text:
        parts.append(Part("value" if output.kind == "result" else "display", forms.text))
    files = []
    for file in forms.files:
        line, entry = budget.put(file)
        parts.append(Part("", line))
        files += entry
    parts.extend(Part("", line) for line in forms.broken)
    return {"media_types": list(forms.media_types), "files": files}


class _Budget:
    """Files of one cell, so many and no more."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._room = MOST_BYTES
        self.paths: list[str] = []

    def put(self, file: File) -> tuple[str, list[dict[str, Any]]]:
        """The line about it, and what a program may know of it; nothing when it was not written."""
        what = ", ".join(_facts(file))
        if len(self.paths) >= MOST_FILES or len(file.data) > self._room:
            return f"[{what}: not kept, a cell may leave {MOST_FILES} files and {MOST_BYTES >> 20} MiB]", []
        try:
            path = self._keep(file)
        except (OSError, WorkspaceError) as error:
            return f"[{what}: could not be kept: {str(error)[:200]}]", []
        self._room -= len(file.data)
        self.paths.append(path)
        entry: dict[str, Any] = {"path": path, "media_type": file.media_type, "bytes": len(file.data)}
        if file.size:
            entry["width"], entry["height"] = file.size
        return f"[{what}: {path}]", [entry]


def _facts(file: File) -> Iterator[str]:
    yield file.media_type
    if file.size:
        yield f"{file.size[0]} x {file.size[1]}"
    yield f"{len(file.data):,} bytes"
