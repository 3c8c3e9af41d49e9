"""Builds the message that answers a job: why the job ended, what it used, and the files to bring back.

The worker's report comes from untrusted code, so `parse_report` accepts only known fields of known types.
"""

import os
import signal
import stat
from typing import Protocol

from sandbox import worker
from sandbox.linux.attend import WorkerEnd
from sandbox.linux.watch import Used
from sandbox.wire.report import parse_report

_MAX_COLLECTED_BYTES = 64 << 20
_END_BY_SIGNAL: dict[int, str] = {
    signal.SIGXCPU: "cpu",
    signal.SIGXFSZ: "file_size",
    signal.SIGSYS: "policy",
    signal.SIGKILL: "killed",
}


class Measurements(Protocol):
    """What is known at the end of a job about the resources that it used (`sandbox.linux.watch.TreeWatch`)."""

    def hits(self, used: Used) -> list[str]: ...

    def peak(self, used: Used) -> int: ...


def conclude(
    header: worker.Message,
    ended: WorkerEnd,
    watch: Measurements,
    changes: tuple[list[worker.Message], bytes] = ([], b""),
) -> tuple[worker.Message, bytes]:
    """Return the header and the body of the answer's frame.

    Args:
        header: The job's header.
        ended: How the worker ended.
        watch: What measured the job.
        changes: The listing and the contents of the files that the job changed in a copied workspace.
    """
    answer = _own_answer(ended, header)
    hits = watch.hits(ended.used)
    if ended.reason:
        answer["end"] = ended.reason
    elif "cpu" in hits and answer["end"] in ("ok", "killed", "error"):
        answer["end"] = "cpu"  # many short processes, or the hard rlimit, which kills without giving a reason
    elif "memory" in hits and answer["end"] in ("killed", "error") and ended.status:
        answer["end"] = "memory"  # the kernel killed a process because of the control group's limit
    elif answer["end"] == "error" and hits and header["language"] != "python":
        answer["end"] = hits[0]
    if answer["end"] not in ("ok", "error", "killed", "policy", *hits):
        hits.append(answer["end"])
    answer["usage"] = {
        "cpu_s": ended.used.cpu_s,
        "peak_memory_bytes": watch.peak(ended.used),
        "limits_hit": hits,
    }
    answer["files"], files = _collect(header["cwd"], header["collect"])
    answer["changes"], changed = changes
    return answer, files + changed


def _own_answer(ended: WorkerEnd, header: worker.Message) -> worker.Message:
    """Return the worker's report if it sent one and exited normally; else derive an answer from its exit status."""
    exit_code = os.waitstatus_to_exitcode(ended.status)
    if exit_code < 0:
        return {"end": _END_BY_SIGNAL.get(-exit_code, "error"), "signal": -exit_code, "exit_code": None}
    reported = parse_report(ended.answer)
    if reported is not None:
        return reported
    if header["call"]:
        message = f"the code ended the process (exit code {exit_code}) before its function returned"
        error = {"type": "SystemExit", "message": message, "traceback": ""}
        return {"end": "error", "exit_code": exit_code, "error": error}
    return {"end": "error" if exit_code else "ok", "exit_code": exit_code}


def _collect(folder: str, paths: list[str]) -> tuple[list[tuple[str, int]], bytes]:
    """Return the path and size of each file to bring back, and the joined contents. Skips anything but regular files.

    All processes of the box must have been killed or stopped.
    """
    listing: list[tuple[str, int]] = []
    parts: list[bytes] = []
    room = _MAX_COLLECTED_BYTES
    for path in paths:
        data = _read_plain(folder, path, room)
        if data is not None:
            room -= len(data)
            parts.append(data)
            listing.append((path, len(data)))
    return listing, b"".join(parts)


def _read_plain(folder: str, path: str, room: int) -> bytes | None:
    real = os.path.realpath(os.path.join(folder, path))
    if not real.startswith(folder + "/"):
        return None
    try:
        # Do not block on a pipe, or follow a link that has replaced the file in the meantime.
        descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_size > room:
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as source:
        return source.read(room)
