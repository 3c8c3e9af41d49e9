"""Which protection of the box causes a difference. docs/design/fidelity.md explains each."""

import fnmatch

# (pattern of case ids, protection)
_CAUSES: tuple[tuple[str, str], ...] = ()


def protection(case: str) -> str:
    """The protection that causes a case to differ; "" when none is known."""
    return next((why for pattern, why in _CAUSES if fnmatch.fnmatchcase(case, pattern)), "")
