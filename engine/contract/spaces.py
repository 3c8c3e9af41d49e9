"""Spaces: names under which memories are kept and changes are announced, such as ``shared:household``."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

Globs = tuple[str, ...]
DEFAULT_SPACE = "default"


def sees(globs: Globs | None, space: str) -> bool:
    """Whether any of the globs matches the space. None sees every space, an empty tuple none."""
    return globs is None or any(fnmatchcase(space, glob) for glob in globs)


def narrowed(one: Globs | None, other: Globs | None) -> Globs | None:
    """Globs that match no space but those which both match.

    A glob is kept when a glob of the other side matches everything it matches. Of two globs that merely overlap
    (``a*`` and ``*b``) neither is kept: it is the careful answer.
    """
    if one is None or other is None or one == other:
        return other if one is None else one
    kept = [glob for glob in one if _covered(glob, other)] + [glob for glob in other if _covered(glob, one)]
    return tuple(dict.fromkeys(kept))


def _covered(glob: str, by: Sequence[str]) -> bool:
    # Read as a name, a glob is matched by a wider one whose only wildcard is the star: `a?` by `a*`.
    return any(glob == wider or (not set(wider) & set("?[") and fnmatchcase(glob, wider)) for wider in by)
