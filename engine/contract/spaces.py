"""Spaces: namespaces for memories and change events, such as ``shared:household``."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

Globs = tuple[str, ...]
DEFAULT_SPACE = "default"


def sees(globs: Globs | None, space: str) -> bool:
    """Return whether any glob matches the space. None matches every space, an empty tuple matches none."""
    return globs is None or any(fnmatchcase(space, glob) for glob in globs)


def narrowed(one: Globs | None, other: Globs | None) -> Globs | None:
    """Return globs that match only spaces that both arguments match.

    A glob is kept if a glob of the other argument covers it. If two globs merely overlap (``a*`` and ``*b``), neither
    is kept, which errs on the side of denying access.
    """
    if one is None or other is None or one == other:
        return other if one is None else one
    kept = [glob for glob in one if _covered(glob, other)] + [glob for glob in other if _covered(glob, one)]
    return tuple(dict.fromkeys(kept))


def _covered(glob: str, by: Sequence[str]) -> bool:
    # If `*` is the only wildcard in `wider`, it covers exactly the globs whose text it matches: `a*` matches `a?`.
    return any(glob == wider or (not set(wider) & set("?[") and fnmatchcase(glob, wider)) for wider in by)
