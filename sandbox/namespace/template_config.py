"""The configuration of a template of the namespace backend, and the program that starts a template."""

import sys
from dataclasses import dataclass

from sandbox.forkserver.launch import Program

PROGRAM = Program(
    getattr(sys, "_base_executable", sys.executable), "sandbox.namespace.supervisor", {"LD_BIND_NOW": "1"}
)


@dataclass(frozen=True, slots=True)
class NamespaceTemplateConfig:
    """The parameters with which a template is started.

    Attributes:
        preload: Modules to import before the first fork.
        in_box: Modules of Knackbox to load after these.
        packages: Site-packages folders of the host.
        path: The folders in the PATH of its boxes.
        box_uid: The host user id of its boxes, if the template is started as root.
        init: The path of the native process 1 (`native/box_init.c`); "" if process 1 is written in Python.
    """

    preload: tuple[str, ...]
    in_box: tuple[str, ...]
    packages: tuple[str, ...]
    path: tuple[str, ...]
    box_uid: int
    init: str
