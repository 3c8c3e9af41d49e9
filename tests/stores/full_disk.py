"""Runs a process on a full disk: a small tmpfs in a separate mount namespace."""

import os
import subprocess
import sys
from pathlib import Path

DEADLINE_S = 100
SIZE = "16m"


def fill(folder: Path, leave: int = 0) -> None:
    """Fill the file system of this folder, except for `leave` bytes, with a file called ``ballast``."""
    descriptor = os.open(folder / "ballast", os.O_CREAT | os.O_WRONLY)
    try:
        while True:
            os.write(descriptor, b"x" * 4096)
    except OSError:
        os.ftruncate(descriptor, max(0, os.fstat(descriptor).st_size - leave))
    finally:
        os.close(descriptor)


def on_small_disk(module: str, folder: Path) -> str:
    """Run ``python -m module folder`` with a small disk mounted at the folder, and return what it prints.

    Raises:
        AssertionError: It fails.
    """
    mount = f'mount -t tmpfs -o size={SIZE} tmpfs "$0" && exec "$@"'
    words = ["sh", "-c", mount, str(folder), sys.executable, "-m", module, str(folder)]
    namespaces = "-m" if os.geteuid() == 0 else "-Urm"
    done = subprocess.run(
        ["unshare", namespaces, *words], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
