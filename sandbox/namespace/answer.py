"""Put the end of a job into the words of the contract, with its usage and the files it should bring back."""

import contextlib
import json
import os
import signal

from sandbox import worker
from sandbox.namespace import rootfs
from sandbox.namespace.attend import Ended
from sandbox.namespace.watch import TreeWatch

_MAX_COLLECTED_BYTES = 256 << 20
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
    elif ended.status and "cpu" in hits and answer["end"] in ("killed", "error"):
        answer["end"] = "cpu"  # the hard rlimit kills without saying why
    elif answer["end"] == "error" and hits and header["language"] != "python":
        answer["end"] = hits[0]
    if answer["end"] not in ("ok", "error", "killed", "policy", *hits):
        hits.append(answer["end"])
    answer["usage"] = {
        "cpu_s": ended.used.cpu_s,
        "peak_memory_bytes": watch.peak(ended.used),
        "limits_hit": hits,
    }
    answer["files"], body = _collect(header["collect"])
    return answer, body


def _own_answer(ended: Ended, header: worker.Message) -> worker.Message:
    """What the worker said, if it said it and left in order; else what its status says."""
    exit_code = os.waitstatus_to_exitcode(ended.status)
    if exit_code < 0:
        return {"end": _END_BY_SIGNAL.get(-exit_code, "error"), "signal": -exit_code, "exit_code": None}
    size = worker.HEADER.size
    if len(ended.answer) >= size:
        length, _ = worker.unpack_head(ended.answer[:size])
        with contextlib.suppress(ValueError):
            answer = json.loads(ended.answer[size : size + length])
            if isinstance(answer, dict) and answer.get("end"):
                return answer
    if header["call"]:
        message = f"the code left the process (exit code {exit_code}) before its function returned"
        error = {"type": "SystemExit", "message": message, "traceback": ""}
        return {"end": "error", "exit_code": exit_code, "error": error}
    return {"end": "error" if exit_code else "ok", "exit_code": exit_code}


def _collect(paths: list[str]) -> tuple[list[tuple[str, int]], bytes]:
    """Files to bring back. Every other process of the box is dead, so nothing moves under our feet."""
    listing: list[tuple[str, int]] = []
    parts: list[bytes] = []
    total = 0
    for path in paths:
        real = os.path.realpath(f"{rootfs.WORK}/{path}")
        if not real.startswith(rootfs.WORK + "/") or not os.path.isfile(real):
            continue
        total += os.path.getsize(real)
        if total > _MAX_COLLECTED_BYTES:
            break
        with open(real, "rb") as source:
            parts.append(source.read())
        listing.append((path, len(parts[-1])))
    return listing, b"".join(parts)
