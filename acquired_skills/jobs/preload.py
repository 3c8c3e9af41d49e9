"""Which heavy libraries a box's template should have imported already for a skill, read from its imports."""

import functools
from collections.abc import Iterable
from importlib.util import find_spec

# Slow to import, common in skills, and safe to share between boxes. The first that a skill imports is enough, since
# pandas brings numpy; and few different sets means few templates.
PRELOADABLE = ("pandas", "numpy")


def preload_for(
    imports: Iterable[str], environment: tuple[str, ...] = (), always: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """The modules to preload for code that imports these top-level modules; only what is installed. always: these too.

    environment: requirements of the code's own environment. With any, nothing is preloaded: a template imports outside
    of every box, and whoever picked those packages may have picked what runs when they are imported.
    """
    if environment:
        return ()
    wanted = frozenset(imports)
    return (*always, *next(((name,) for name in PRELOADABLE if name in wanted and _installed(name)), ()))


@functools.cache
def _installed(module: str) -> bool:
    return find_spec(module) is not None
