"""Converts the answer of a box into an `Outcome`."""

from typing import Any

from sandbox.changes import Change, ChangeKind
from sandbox.contract import CodeError, End, Outcome, Usage
from sandbox.forkserver.output_reader import OutputReader


def without_answer(output: OutputReader, wall_s: float) -> Outcome:
    """Return the outcome of a job whose box was killed."""
    usage = Usage(wall_s=wall_s, output_bytes=output.seen)
    return Outcome(end=End.KILLED, usage=usage, **output.captured())


def with_answer(said: dict[str, Any], body: bytes, output: OutputReader, wall_s: float) -> Outcome:
    """Return the outcome that an answer describes.

    Args:
        said: The header of the answer (`sandbox.linux.answer.conclude`).
        body: The contents of the files in the answer.
        output: What the job has printed.
        wall_s: How long the job took.
    """
    files, offset = {}, 0
    for path, size in said["files"]:
        files[path] = body[offset : offset + size]
        offset += size
    changes = []
    for each in said["changes"]:
        kind, end = ChangeKind(each["kind"]), offset + each["size"]
        link, large = each.get("link", ""), each.get("too_large", False)
        changes.append(Change(each["path"], kind, body[offset:end], each.get("mode", 0), link, large))
        offset = end
    used = said["usage"]
    error = said.get("error")
    return Outcome(
        end=End.OUTPUT if output.too_much else End(said["end"]),
        exit_code=said.get("exit_code"),
        signal=said.get("signal"),
        value=said.get("value"),
        error=CodeError(error["type"], error["message"], error["traceback"]) if error else None,
        files=files,
        changes=tuple(changes),
        usage=Usage(
            wall_s=wall_s,
            cpu_s=used["cpu_s"],
            peak_memory_bytes=used["peak_memory_bytes"],
            output_bytes=output.seen,
            limits_hit=tuple(dict.fromkeys((*used["limits_hit"], *(["output"] if output.too_much else [])))),
        ),
        **output.captured(),
    )
