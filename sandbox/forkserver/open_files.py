"""Raises the limit on open files for a supervisor and its template. Standard library only."""

import contextlib
import resource

_LEAST = 128  # the descriptors of a box are moved to numbers above 100 while it is made
_ENOUGH = 1024
REMEDY = "Raise the limit on open files (`ulimit -n 1024`, or `LimitNOFILE=` of the service) and start again."


def ensure_enough() -> None:
    """Raise this process's limit on open files to 1024, or as far as allowed.

    Raises:
        OSError: The limit is still too low to create boxes.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= _ENOUGH:
        return
    for wanted in ((_ENOUGH, max(hard, _ENOUGH)), (min(hard, _ENOUGH), hard)):
        with contextlib.suppress(ValueError, OSError):  # only root may raise the hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, wanted)
            break
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed < _LEAST:
        raise OSError(f"a process may have only {allowed} files open here, and creating a box needs {_LEAST}")
