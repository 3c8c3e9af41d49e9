"""What all jobs that read documents in boxes have in common: the files of the box, and the errors of their outcomes."""

import functools
from collections.abc import Mapping
from pathlib import Path

from engine.contract.failure import ToolFailure
from sandbox.contract import End, Limits, Outcome

_TOP = Path(__file__).parents[2]
_IN_BOX = "builtin_tools/documents/in_box"
_PACKAGES = ("builtin_tools", "builtin_tools/documents", _IN_BOX)


@functools.cache
def box_files(entry: str, module: str, function: str) -> Mapping[str, bytes]:
    """Return the files that a box needs, by path. Blocks.

    Args:
        entry: The path of the file that the job calls.
        module: A module of `in_box`, such as ``extract``.
        function: The function of that module that the entry file offers.
    """
    files = {f"{package}/__init__.py": b"" for package in _PACKAGES}
    files |= {f"{_IN_BOX}/{path.name}": path.read_bytes() for path in sorted((_TOP / _IN_BOX).glob("*.py"))}
    files[entry] = f"from {_IN_BOX.replace('/', '.')}.{module} import {function}\n".encode()
    return files


def problem_of(outcome: Outcome, limits: Limits, output: str, missing: str, remedy: str = "Split it.") -> str:
    """Return why a job gave no usable output; "" if it did.

    Args:
        outcome: The outcome of a function that returns ``{"problem": text}``.
        limits: The limits of the job.
        output: The file that the function writes.
        missing: The problem if the file is missing.
        remedy: What to do if the job exceeded a limit.
    """
    if outcome.end is not End.OK:
        detail = f"{outcome.error.type}: {outcome.error.message}" if outcome.error is not None else outcome.end.value
        return _ends(limits, remedy).get(outcome.end, f"it could not be read ({detail[:300]}).")
    value = outcome.value
    if not isinstance(value, Mapping) or not isinstance(value.get("problem"), str):
        return "the library that reads this format returned something unexpected. The document may be malicious."
    if value["problem"]:
        return str(value["problem"])[:1000]
    return "" if output in outcome.files else missing


def unreadable(name: str, problem: str) -> ToolFailure:
    """Return the failure for a document that cannot be read (DIAGNOSTIC)."""
    return ToolFailure(f"{name}: {problem}", reason="unreadable_document", may_have_started=False)


def forged(name: str) -> ToolFailure:
    """Return the failure for a malformed output of a box, which a malicious document may have forged."""
    return unreadable(
        name, "reading it gave a malformed result. The document may be malicious; nothing of it was used."
    )


def _ends(limits: Limits, remedy: str) -> Mapping[End, str]:
    return {
        End.TIMEOUT: f"reading it took more than {limits.wall_s:.0f} s. {remedy}",
        End.CPU: f"reading it took more than {limits.cpu_s:.0f} s of processor time. {remedy}",
        End.MEMORY: f"reading it needs more than {limits.memory_bytes >> 20} MiB of memory. {remedy}",
        End.DISK: f"unpacking it needs more than {limits.disk_bytes >> 20} MiB of disk. {remedy}",
        End.FILE_SIZE: f"unpacking it needs a file of more than {limits.file_size_bytes >> 20} MiB. {remedy}",
    }
