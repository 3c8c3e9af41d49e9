"""`TouchedPaths`: which paths a call has written through the workspace object."""

import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from engine.stores.undo.scan import StateChange
from engine.stores.workspace import FolderWorkspace


class TouchedPaths:
    """The paths that a call has written, moved or deleted. Threads share it."""

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self._above: set[str] = set()

    def add(self, path: str) -> None:
        """Add a path relative to the workspace, before it is changed."""
        normal = posixpath.normpath(path)
        self._paths.add(normal)
        self._above.update(_above(normal))

    def explain(self, change: StateChange) -> bool:
        """Return whether writing, moving or deleting these paths can have made a change."""
        if change.path in self._paths or not self._paths.isdisjoint(_above(change.path)):
            return True
        made = change.before is None and change.after is not None and change.after.kind == "folder"
        return made and change.path in self._above


class TouchingWorkspace(FolderWorkspace):
    """The same folder as another workspace object, which also notes what is written."""

    def __init__(self, inner: FolderWorkspace, touched: TouchedPaths) -> None:
        self.root = inner.root
        self._kernel_checks = inner._kernel_checks  # noqa: SLF001 -- of the same class
        self._touched = touched

    def write(self, path: str, data: bytes) -> None:
        self._touched.add(path)
        super().write(path, data)

    @contextmanager
    def replacing(self, path: str) -> Iterator[BinaryIO]:
        self._touched.add(path)
        with super().replacing(path) as stream:
            yield stream

    def write_new(self, path: str, data: bytes) -> None:
        self._touched.add(path)
        super().write_new(path, data)

    def make_folder(self, path: str) -> None:
        self._touched.add(path)
        super().make_folder(path)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        self._touched.add(path)
        super().delete(path, recursive=recursive)

    def move(self, source: str, target: str, *, replace: bool = False) -> None:
        self._touched.add(source)
        self._touched.add(target)
        super().move(source, target, replace=replace)


def _above(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]
