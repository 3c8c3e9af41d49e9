"""Converts the outcome of a failed run in a box to a ToolFailure that tells the model what to correct."""

from engine.contract.failure import FailureClass, ToolFailure
from sandbox.contract import CodeError, End, Outcome

# Bytes of each part shown to the model. The end of a traceback or stream is the most informative part.
_TRACEBACK_BYTES = 4 << 10
_STREAM_BYTES = 2 << 10

_WHY = {
    End.ERROR: "failed",
    End.TIMEOUT: "ran out of wall-clock time and was killed; make it do less at once, or ask for more time",
    End.CPU: "used up its CPU time and was killed; use a cheaper algorithm or less data",
    End.MEMORY: "used more memory than allowed and was killed; work in smaller pieces",
    End.OUTPUT: "printed more than allowed and was killed; print less, or write to a file",
    End.DISK: "filled the disk space of its box; write less",
    End.PROCESSES: "started more processes or threads than allowed; start fewer",
    End.FILES: "opened more files than allowed; close files after use",
    End.FILE_SIZE: "wrote a file larger than allowed; write smaller files",
    End.KILLED: "was killed from outside before it finished",
    End.POLICY: "tried an operation that the box forbids and was killed",
}

_REASONS = {End.ERROR: "code_failed", End.POLICY: "denied"}  # for every other end, its own value is the reason


def failure_of(outcome: Outcome, what: str = "The code", remark: str = "", why: str = "") -> ToolFailure:
    """Return the ToolFailure for an outcome whose `ok` is False.

    The failure is FATAL for a denial (`End.POLICY`). Otherwise it is DIAGNOSTIC, because the code can be corrected. Its
    text says why the run ended. It also contains the exit code, the part of the traceback that is in the job's own
    code, and the end of stderr, each of limited length.

    Args:
        outcome: The outcome. Its `end` is copied to the failure.
        what: The subject of the first sentence.
        remark: Added at the end of the text.
        why: Replaces the default explanation of the outcome's `end`.

    Raises:
        ValueError: The outcome is ok.
    """
    if outcome.ok:
        raise ValueError("The outcome is ok, so it has no failure.")
    parts = [f"{what} {why or _WHY[outcome.end]}{_status(outcome)}."]
    traceback = _traceback(outcome.error)
    if traceback:
        parts.append(traceback)
    stderr = _tail(outcome.stderr, _STREAM_BYTES, outcome.stderr_dropped)
    if stderr and stderr not in traceback:
        parts.append(f"stderr:\n{stderr}")
    elif not stderr and not traceback:
        stdout = _tail(outcome.stdout, _STREAM_BYTES, outcome.stdout_dropped)
        parts.append(f"stdout:\n{stdout}" if stdout else "It printed nothing.")
    if outcome.usage.limits_hit:
        parts.append(f"Limits hit: {', '.join(outcome.usage.limits_hit)}.")
    if remark:
        parts.append(remark)
    denied = outcome.end is End.POLICY
    return ToolFailure(
        "\n".join(parts),
        failure_class=FailureClass.FATAL if denied else FailureClass.DIAGNOSTIC,
        reason=_REASONS.get(outcome.end, str(outcome.end)),
        end=str(outcome.end),
    )


def raise_unless_ok(outcome: Outcome, what: str = "The code") -> Outcome:
    """Return the outcome if it is ok.

    Args:
        outcome: The outcome.
        what: The subject of the first sentence of the error message.

    Raises:
        ToolFailure: The outcome is not ok (`failure_of`).
    """
    if outcome.end is not End.OK:
        raise failure_of(outcome, what)
    return outcome


def _status(outcome: Outcome) -> str:
    if outcome.signal:
        return f" (signal {outcome.signal})"
    return f" (exit code {outcome.exit_code})" if outcome.exit_code else ""


def _traceback(error: CodeError | None) -> str:
    if error is None:
        return ""
    last = f"{error.type}: {error.message}" if error.message else error.type
    text = error.traceback.strip()
    if last not in text:
        text = f"{text}\n{last}".strip()
    return _tail(text.encode("utf-8", "replace"), _TRACEBACK_BYTES, 0)


def _tail(data: bytes, limit: int, dropped: int) -> str:
    """Return the end of a stream, starting at a line, with a note of how much was dropped before it."""
    kept = data.strip()
    if len(kept) > limit:
        cut = kept[-limit:]
        newline = cut.find(b"\n")
        cut = cut[newline + 1 :] if 0 <= newline < limit // 2 else cut
        dropped += len(kept) - len(cut)
        kept = cut
    text = kept.decode("utf-8", "replace")
    return f"[… {dropped} bytes before this]\n{text}" if dropped and text else text
