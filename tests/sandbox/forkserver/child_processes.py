"""Lists child processes, as the kernel does."""

from pathlib import Path


def children(pid: int) -> set[int]:
    """Return the children of a process's main thread."""
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()}
