"""The config of a template of the `landlock` backend, and the program that starts one."""

from dataclasses import dataclass

from sandbox.forkserver.launch import Program


@dataclass(frozen=True, slots=True)
class LandlockTemplateConfig:
    """The parameters with which a template is started.

    Attributes:
        preload: Modules to import before the first fork.
        in_box: Modules of Knackbox to load after these.
        packages: Site-packages folders of the host.
        path: The folders in the jobs' PATH.
        folder: The folder in which the template's base folder is created. The jobs' private folders are in the base.
        readable: Host paths a job may read.
        first_uid: The first of the user ids reserved for jobs; -1 when jobs run as the user who started Knackbox.
        uids: The number of user ids reserved for jobs.
    """

    preload: tuple[str, ...]
    in_box: tuple[str, ...]
    packages: tuple[str, ...]
    path: tuple[str, ...]
    folder: str
    readable: tuple[str, ...]
    first_uid: int
    uids: int


def program(python: str) -> Program:
    """Return the supervisor's program. `python` is the interpreter of the template and of its jobs."""
    return Program(python, "sandbox.landlock_only.supervisor", {})
