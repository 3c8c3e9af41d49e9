"""File descriptors for the connections of a server: the soft limit is raised as far as the hard one allows."""

import logging
import resource

_log = logging.getLogger("knackbox.http")

_OTHERS = 512  # of the engine itself: databases, boxes, kernels


def connections_within(wanted: int) -> int:
    """How many connections there may be. Raises the soft limit of descriptors when `wanted` ones need more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHERS
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    most = max(2, soft - _OTHERS, soft // 4)
    _log.warning(
        "%d connections need %d file descriptors, and %d are allowed: %d are taken. Raise the hard limit (ulimit -Hn).",
        wanted,
        needed,
        soft,
        most,
    )
    return most
