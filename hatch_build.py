"""Compiles process 1 of boxes (`sandbox/namespace/native/box_init.c`) when a wheel or an editable install is built.

The program is never required: without a C compiler, the same wheel is pure Python, and process 1 is the one written in
Python. CC selects another compiler; `CC=` (empty) does without one.
"""

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SOURCE = Path("sandbox/namespace/native/box_init.c")
_OPTIONS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-s")
# A static program needs nothing of the machine it runs on. Some distributions have no static C library.
_WAYS = (("-static",), ())


class CompileProcessOne(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the program to the wheel, which then is for this machine's architecture only."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the program next to its source."""
        source = Path(self.root) / _SOURCE
        program = source.with_suffix("")
        compiler = os.environ.get("CC", "cc")
        static = compile_with(compiler, source, program)
        if static is None:
            self.app.display_info(f"box_init was not compiled: no C compiler ({compiler or 'CC is empty'}) succeeded")
            return
        if version != "editable":
            build_data["artifacts"].append(str(_SOURCE.with_suffix("")))
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{_platform(static=static)}"


def compile_with(compiler: str, source: Path, program: Path) -> bool | None:
    """Compile the program; return whether it is static, or None if the compiler is missing or fails."""
    program.unlink(missing_ok=True)  # one of an earlier version must not be used with the new package
    if not compiler or not shutil.which(compiler.split(maxsplit=1)[0]):
        return None
    for way in _WAYS:
        made = program.with_suffix(f".{os.getpid()}")
        command = [*compiler.split(), *_OPTIONS, *way, "-o", str(made), str(source)]
        if subprocess.run(command, check=False, capture_output=True).returncode == 0:
            made.replace(program)  # never half-written, and a running copy is not changed
            return way == ("-static",)
        made.unlink(missing_ok=True)
    return None


def _platform(*, static: bool) -> str:
    """Return the platform tag.

    A static program runs on every distribution, so the tag is the oldest that installers accept: glibc 2.5 on x86, and
    2.17 elsewhere (`packaging.tags`).
    """
    tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    if not static or not tag.startswith("linux_"):
        return tag
    oldest = "manylinux_2_5_" if tag in ("linux_x86_64", "linux_i686") else "manylinux_2_17_"
    return tag.replace("linux_", oldest)
