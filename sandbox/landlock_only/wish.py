"""What a template of this level should be, and the program that makes it."""

from dataclasses import dataclass

from sandbox.namespace.launch import Program


@dataclass(frozen=True, slots=True)
class LandlockWish:
    """As `sandbox.namespace.launch.TemplateWish`, and what this level needs beside it.

    folder: where private folders are made. readable: host paths a job may read. first_uid, uids: users that are
    nobody's; -1 when jobs run as the user who started us.
    """

    preload: tuple[str, ...]
    packages: tuple[str, ...]
    path: tuple[str, ...]
    folder: str
    readable: tuple[str, ...]
    first_uid: int
    uids: int


def program(python: str) -> Program:
    """`python`: the interpreter of the template and its jobs."""
    return Program(python, "sandbox.landlock_only.supervisor", {})
