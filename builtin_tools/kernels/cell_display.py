"""Presents the outputs of a cell to models and programs: text as text, and other outputs as files of the workspace."""

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from builtin_tools.kernels.bundle import File, forms_of
from engine.stores.workspace import FolderWorkspace, WorkspaceError
from sandbox.kernels.spec import Cell, Output

Write = Callable[[File], str]
"""Writes a file and returns its path. May raise OSError or WorkspaceError."""

FOLDER = "outputs"  # the folder in the workspace for the files of cells
_TRIES = 3  # names tried for one file

MOST_FILES = 20  # files per cell
MOST_BYTES = 32 << 20  # the total size of the files of a cell
VALUE_TEXT = 1 << 20  # characters of all outputs together in the structured value; the message is not limited


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the message that a model reads.

    Attributes:
        label: What the part contains: stdout, stderr, value or display; "" for a line about a file.
    """

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class CellDisplay:
    """The outputs of a cell, prepared for models and programs.

    Attributes:
        parts: The message for a model.
        outputs: A JSON object for each output, in order.
        paths: The paths of the written files.
    """

    parts: tuple[Part, ...]
    outputs: tuple[dict[str, Any], ...]
    paths: tuple[str, ...]

    @property
    def message(self) -> str:
        """Join the parts, with labels if there is more than one."""
        labelled = [part for part in self.parts if part.label]
        if len(labelled) == 1 and labelled[0].label != "stderr":
            return "\n".join(part.text for part in self.parts)
        return "\n".join(f"{part.label}:\n{part.text}" if part.label else part.text for part in self.parts)

    def stream(self, name: str) -> str:
        """Return everything printed to the stream of this name, without the final newline."""
        return "\n".join(part.text for part in self.parts if part.label == name)


def show(cell: Cell, write: Write) -> CellDisplay:
    """Present a cell's outputs. Blocks, because it writes files. The cell's error is not included."""
    budget = _FileBudget(write)
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
        parts.append(Part("", f"[{cell.dropped_bytes:,} bytes of output exceeded the limit and were dropped]"))
    return CellDisplay(tuple(parts), tuple(outputs), tuple(budget.paths))


def _described(output: Output, budget: "_FileBudget", parts: list[Part]) -> dict[str, Any]:
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


class _FileBudget:
    """Writes the files of one cell, up to `MOST_FILES` files and `MOST_BYTES` bytes in total."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._room = MOST_BYTES
        self.paths: list[str] = []

    def put(self, file: File) -> tuple[str, list[dict[str, Any]]]:
        """Write a file.

        Returns:
            A line about the file for a model, and a list with one description of the file, or [] if it was not written.
        """
        what = ", ".join(_facts(file))
        if len(self.paths) >= MOST_FILES or len(file.data) > self._room:
            return f"[{what}: not kept, because a cell may create {MOST_FILES} files and {MOST_BYTES >> 20} MiB]", []
        try:
            path = self._write(file)
        except (OSError, WorkspaceError) as error:
            return f"[{what}: could not be kept: {str(error)[:200]}]", []
        self._room -= len(file.data)
        self.paths.append(path)
        entry: dict[str, Any] = {"path": path, "media_type": file.media_type, "bytes": len(file.data)}
        if file.size:
            entry["width"], entry["height"] = file.size
        return f"[{what}: {path}]", [entry]


def file_writer(workspace: FolderWorkspace, stem: str) -> Write:
    """Return a function that writes `outputs/<stem>-<n>.<type>`, with `n` starting at 1."""
    count = 0

    def write(file: File) -> str:
        nonlocal count
        count += 1
        return write_new(workspace, f"{FOLDER}/{stem}-{count}", file.suffix, file.data)

    return write


def write_new(workspace: FolderWorkspace, stem: str, suffix: str, data: bytes) -> str:
    """Write a new file and return its path. If the name is taken, random characters are added to it.

    Raises:
        WorkspaceError: The workspace refuses the path.
        OSError: The file cannot be written, or all names that were tried are taken.
    """
    path = stem + suffix
    for _ in range(_TRIES):
        try:
            workspace.write_new(path, data)
        except FileExistsError:
            path = f"{stem}-{secrets.token_hex(3)}{suffix}"
        else:
            return path
    raise FileExistsError(f"{stem}{suffix} exists already")


def _facts(file: File) -> Iterator[str]:
    yield file.media_type
    if file.size:
        yield f"{file.size[0]} x {file.size[1]}"
    yield f"{len(file.data):,} bytes"
