"""The two kinds of process 1 that the benchmarks of boxes compare."""

from dataclasses import dataclass

from sandbox.namespace import process_one


@dataclass(frozen=True, slots=True)
class ProcessOne:
    """A kind of process 1.

    Attributes:
        native: The value of `NamespaceConfig.native`.
        note: Follows the name of a candidate.
        helpers: Processes of a template besides those of its boxes: the supervisor, the template, and, with the native
            process 1, the program that creates empty boxes, and one empty box.
    """

    native: bool
    note: str
    helpers: int


PYTHON = ProcessOne(native=False, note=" (process 1 in Python)", helpers=2)
NATIVE = ProcessOne(native=True, note="", helpers=4)


def kinds() -> tuple[ProcessOne, ...]:
    """Return the kinds of process 1 that this installation has."""
    return (NATIVE, PYTHON) if process_one.program() else (PYTHON,)
