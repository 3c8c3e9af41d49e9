"""A copy-on-write workspace: an overlay whose upper layer is on the box's own tmpfs.

Runs in process 1 of the box. The layer's markers are described in the kernel's
``Documentation/filesystems/overlayfs.rst``: a 0:0 device marks a deleted name, and an attribute marks a
replaced folder.
Standard library only.
"""

import contextlib
import os
import stat

from sandbox import worker
from sandbox.linux import syscalls
from sandbox.namespace import rootfs
from sandbox.wire import paths

_BELOW = f"{rootfs.BOX}/below"
_LAYER = f"{rootfs.BOX}/layer"
_SCRATCH = f"{rootfs.BOX}/scratch"
_OPAQUE = "user.overlay.opaque"
_MOST_CHANGES = 10_000
_MOST_BYTES = 64 << 20

Listing = list[worker.Message]


def mount(tree: int) -> None:
    """Mount the workspace at /work, below a layer that takes all writes.

    Raises:
        OSError: A mount fails.
    """
    for folder in (_BELOW, _LAYER, _SCRATCH):
        os.mkdir(folder, 0o700)
    syscalls.move_mount(tree, _BELOW)
    options = f"lowerdir={_BELOW},upperdir={_LAYER},workdir={_SCRATCH},userxattr"
    syscalls.mount("overlay", paths.WORK, "overlay", syscalls.MS_NOSUID | syscalls.MS_NODEV, options)


def changes() -> tuple[Listing, bytes]:
    """Return the changes in the layer, sorted by path: a listing, and the contents of the files in the same order.

    At most `_MOST_CHANGES` changes are returned. A file that would make the contents exceed `_MOST_BYTES` is only
    listed, as too large.
    """
    listing: Listing = []
    parts: list[bytes] = []
    room = _MOST_BYTES
    for path in sorted(_entries("")):
        if len(listing) >= _MOST_CHANGES:
            break
        change, data = _describe(path, room)
        room -= len(data)
        listing.append(change)
        parts.append(data)
    return listing, b"".join(parts)


def _entries(folder: str) -> list[str]:
    """Return the paths that changed: files, links and deletions, but not folders themselves."""
    found = []
    with os.scandir(f"{_LAYER}/{folder}") as entries:
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                found += _replaced(path) + _entries(path)
            else:
                found.append(path)
    return found


def _replaced(folder: str) -> list[str]:
    """If the folder was deleted and created again, return the paths of its old entries that do not exist any more."""
    with contextlib.suppress(OSError):
        if os.getxattr(f"{_LAYER}/{folder}", _OPAQUE) == b"y":
            old = f"{_BELOW}/{folder}"
            if os.path.islink(old):
                return []
            return [f"{folder}/{name}" for name in os.listdir(old) if not os.path.lexists(f"{_LAYER}/{folder}/{name}")]
    return []


def _describe(path: str, room: int) -> tuple[worker.Message, bytes]:
    above = f"{_LAYER}/{path}"
    change: worker.Message = {"path": path, "kind": "deleted", "size": 0}
    try:
        found = os.lstat(above)
    except FileNotFoundError:
        return change, b""
    if stat.S_ISCHR(found.st_mode):
        return change, b""
    change["kind"] = "modified" if os.path.lexists(f"{_BELOW}/{path}") else "added"
    change["mode"] = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        return {**change, "link": os.readlink(above)}, b""
    data = _content(above, found, room)
    if data is None:
        return {**change, "too_large": True}, b""
    return {**change, "size": len(data)}, data


def _content(path: str, found: os.stat_result, room: int) -> bytes | None:
    if not stat.S_ISREG(found.st_mode) or found.st_size > room:
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as source:
        return source.read(room)
