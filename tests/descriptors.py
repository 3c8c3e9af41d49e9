"""Lists the open descriptors of this process, without those that earlier tests left to the garbage collector."""

import gc
import os


def open_descriptors() -> list[str]:
    """Collect garbage, and return the target of each open descriptor, as shown in `/proc`."""
    gc.collect()
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:  # the descriptor of the folder itself, or one that another thread has closed
            continue
    return found
