"""Chooses the heavy libraries that a box's template imports in advance for a skill, from the skill's imports."""

import functools
from collections.abc import Iterable
from importlib.util import find_spec

# Slow to import, common in skills, and safe to share between boxes. The first match is enough, since
# pandas imports numpy; and fewer different sets mean fewer templates.
PRELOADABLE = ("pandas", "numpy")


def preload_for(
    imports: Iterable[str], environment: tuple[str, ...] = (), always: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the modules to preload for code with these top-level imports; installed ones only.

    Args:
        always: modules to preload in any case.
        environment: requirements of the code's own environment. With any, nothing is preloaded: a template imports
            outside of every box, and the author of the requirements may have chosen packages that run code when
            imported.
    """
    if environment:
        return ()
    wanted = frozenset(imports)
    return (*always, *next(((name,) for name in PRELOADABLE if name in wanted and _installed(name)), ()))


@functools.cache
def _installed(module: str) -> bool:
    return find_spec(module) is not None
