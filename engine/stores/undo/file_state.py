"""`FileState`: what a path of a workspace is, as far as an undo restores it."""

import stat
from dataclasses import dataclass
from typing import Literal, TypeAlias

FileKind: TypeAlias = Literal["file", "folder", "link", "other"]
_NOT_KEPT = b"~"


@dataclass(frozen=True, slots=True)
class FileState:
    """What a path is. Two states are equal if an undo has nothing to do to get from one to the other.

    Owners, times, extended attributes and the grouping of hard links are not part of it.

    Attributes:
        kind: `other` stands for devices, sockets, named pipes, and folders that are nested too deeply.
        mode: Permission bits, with setuid, setgid and the sticky bit. 0 for links.
        size: Bytes of a file; 0 for everything else.
        content: For a file, the SHA-256 digest of its content in hexadecimal, or if the content was not kept, the
            stat data that identify it (`not_kept`). For a link, its target.
    """

    kind: FileKind
    mode: int
    size: int = 0
    content: bytes = b""

    @property
    def kept(self) -> bool:
        """Whether the path can be restored to this state."""
        return self.kind != "other" and not (self.kind == "file" and self.content.startswith(_NOT_KEPT))


@dataclass(frozen=True, slots=True)
class KnownFile:
    """The state of a path when it was last read, and the stat data by which a later change is noticed.

    Attributes:
        changed_ns: The time of the last change of its inode (st_ctime), in nanoseconds.
        settled: Whether the file had not been changed for long enough when it was read, so that a change in the same
            tick of the clock cannot be missed. A file that is not settled is read again.
    """

    state: FileState
    inode: int
    changed_ns: int
    settled: bool = True


def kind_of(mode: int) -> FileKind:
    """Return the kind of an entry with this `st_mode`."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def not_kept(size: int, modified_ns: int, inode: int) -> bytes:
    """Return the content of the state of a file whose content was not kept."""
    return _NOT_KEPT + f"{size}:{modified_ns}:{inode}".encode()
