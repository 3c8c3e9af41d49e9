"""Jupyter for a test alone: folders of its own, and our kernelspec in them, installed by the command."""

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
NAME = "knackbox"
TIMEOUT_S = 60


def private_jupyter(home: Path) -> dict[str, str]:
    """The environment variables that keep Jupyter out of a user's folders."""
    return {
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTER_PATH": str(home / "share" / "jupyter"),
        "JUPYTER_PLATFORM_DIRS": "1",
        "IPYTHONDIR": str(home / "ipython"),
        "KNACKBOX_HOME": str(home / "knackbox"),
    }


def install(home: Path, *options: str) -> None:
    """Our kernelspec, for a Jupyter with the variables above, as its users install it."""
    command = [sys.executable, "-m", "engine.faces.cli.main", "kernelspec", "install", "--prefix", str(home), *options]
    environ = {**os.environ, **private_jupyter(home)}
    subprocess.run(command, cwd=REPOSITORY, env=environ, check=True, timeout=TIMEOUT_S, capture_output=True)
