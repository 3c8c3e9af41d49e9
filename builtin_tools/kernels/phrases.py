"""Times and sizes for readers."""

_MINUTE, _HOUR = 60, 3600


def ago(seconds: float) -> str:
    """A length of time, such as `5 s`, `12 min` or `3.5 h`."""
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / _MINUTE:.0f} min" if seconds < _HOUR else f"{seconds / _HOUR:.1f} h"


def megabytes(size: int | None) -> str:
    return "unknown" if size is None else f"{size / (1 << 20):,.0f} MiB"
