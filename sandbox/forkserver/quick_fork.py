"""Forks workers without the work that CPython does in a child, where that is safe. Standard library only.

`os.fork` calls every function that was registered with `os.register_at_fork`. Those of the standard library write to
about 170 memory pages, each of which the kernel then copies: `threading` replaces the locks of other threads, `logging`
those of its handlers, and `random` its state. The child of a process with one thread needs none of that except new
random numbers, and gets them from `sandbox.worker.after_fork`. The functions stay registered for forks of the job.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sandbox.linux import syscalls


@contextlib.contextmanager
def noted_hooks() -> Iterator[list[str]]:
    """Note, while the block imports modules, which of them have functions called at a fork. Yields their names."""
    noted: list[str] = []
    register = os.register_at_fork

    def note_and_register(**hooks: Callable[[], Any]) -> None:
        noted.append(str(sys._getframe(1).f_globals.get("__name__", "")))  # noqa: SLF001 -- a hook may be of any module
        register(**hooks)

    os.register_at_fork = note_and_register  # type: ignore[assignment]
    try:
        yield noted
    finally:
        os.register_at_fork = register


def choose(hooks: Sequence[str]) -> Callable[[], int]:
    """Return the function that a template forks its workers with.

    Args:
        hooks: The modules with functions called at a fork, as noted while the wanted modules were imported. If one is
            not of the standard library, or there is a second thread, the function is `os.fork`.
    """
    foreign = any(name.split(".")[0] not in sys.stdlib_module_names for name in hooks)
    alone = len(sys._current_frames()) == 1  # noqa: SLF001  (also counts threads that `threading` does not know)
    return os.fork if foreign or not alone else syscalls.fork
