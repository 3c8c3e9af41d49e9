"""Put the end of a job into the words of the contract, with its usage and the files it should bring back.

The worker's own answer is the word of untrusted code: only what is known is taken from it, in its known type.
"""

import json
import os
import re
import signal
import stat

from sandbox import worker
from sandbox.namespace import layer
from sandbox.namespace.attend import Ended
from sandbox.namespace.watch import TreeWatch

_MAX_COLLECTED_BYTES = 64 << 20
_MAX_DEPTH = 200  # of a value; deeper ones are refused by many JSON readers
_ENDS_OF_CODE = ("ok", "error", "memory", "disk", "files", "file_size", "processes")
_ERROR_LIMITS = {"type": 200, "message": worker.MAX_ERROR_CHARS, "traceback": 2 * worker.MAX_ERROR_CHARS}
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_END_BY_SIGNAL: dict[int, str] = {
    signal.SIGXCPU: "cpu",
    signal.SIGXFSZ: "file_size",
    signal.SIGSYS: "policy",
    signal.SIGKILL: "killed",
}


def conclude(header: worker.Message, ended: Ended, watch: TreeWatch) -> tuple[worker.Message, bytes]:
    """Header and body of the answer's frame."""
    answer = _own_answer(ended, header)
    hits = watch.hits(ended.used)
    if ended.reason:
        answer["end"] = ended.reason
    elif "cpu" in hits and answer["end"] in ("ok", "killed", "error"):
        answer["end"] = "cpu"  # many short processes, or the hard rlimit, which kills without saying why
    elif "memory" in hits and answer["end"] in ("killed", "error") and ended.status:
        answer["end"] = "memory"  # the kernel killed it for the control group
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
    answer["changes"], changed = layer.changes() if header["mount"] == "copy" else ([], b"")
    return answer, files + changed


def _own_answer(ended: Ended, header: worker.Message) -> worker.Message:
    """What the worker said, if it said it and left in order; else what its status says."""
    exit_code = os.waitstatus_to_exitcode(ended.status)
    if exit_code < 0:
        return {"end": _END_BY_SIGNAL.get(-exit_code, "error"), "signal": -exit_code, "exit_code": None}
    reported = report_in(ended.answer)
    if reported is not None:
        return reported
    if header["call"]:
        message = f"the code left the process (exit code {exit_code}) before its function returned"
        error = {"type": "SystemExit", "message": message, "traceback": ""}
        return {"end": "error", "exit_code": exit_code, "error": error}
    return {"end": "error" if exit_code else "ok", "exit_code": exit_code}


def report_in(frame: bytes) -> worker.Message | None:
    """The worker's report, taken over field by field; None when it is not one."""
    size = worker.HEADER.size
    if len(frame) < size:
        return None
    length, _ = worker.unpack_head(frame[:size])
    try:
        text = frame[size : size + length].decode()
        given = json.loads(text)
        if not isinstance(given, dict) or given.get("end") not in _ENDS_OF_CODE or _too_deep(given.get("value")):
            return None
    except (ValueError, RecursionError, MemoryError):
        return None
    code, error = given.get("exit_code"), given.get("error")
    answer = {"end": given["end"], "exit_code": code if type(code) is int and 0 <= code <= 255 else 1}  # noqa: PLR2004
    answer["value"] = _encodable(given.get("value")) if _SURROGATE_ESCAPE.search(text) else given.get("value")
    if isinstance(error, dict):
        answer["error"] = {key: _text(error.get(key), limit) for key, limit in _ERROR_LIMITS.items()}
    return answer


def _encodable(value: object) -> object:
    """The value with U+FFFD for each lone surrogate, which Python's strings can hold and UTF-8 cannot."""
    return json.loads(_SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False)))


def _too_deep(value: object) -> bool:
    """Whether a value is nested deeper than is sensible, found level by level."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        inner = [item for item in level if isinstance(item, (list, dict))]
        if not inner:
            return False
        level = [each for item in inner for each in (item.values() if isinstance(item, dict) else item)]
    return True


def _text(given: object, limit: int) -> str:
    """A string that UTF-8 can hold."""
    return str(given)[:limit].encode("utf-8", "replace").decode() if isinstance(given, str) else ""


def _collect(folder: str, paths: list[str]) -> tuple[list[tuple[str, int]], bytes]:
    """Files to bring back. Everything in the box is killed or stopped; what is not a plain file is left."""
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
        # Without blocking on a pipe or following a link that takes the file's place meanwhile.
        descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_size > room:
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as source:
        return source.read(room)
