"""Makes one attempt on a sandbox and judges the result."""

import asyncio
import builtins
import json
import re
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sandbox.contract import End, Job, Language, Mount, Outcome, Sandbox, SandboxError, Stream
from sandbox.self_check.attempts.attempt import FORGED, HOLDING, LIMITS, POSTLUDES, PRELUDES, TRIED, WORKED, Attempt
from sandbox.self_check.attempts.neighbours import NEIGHBOUR
from sandbox.self_check.attempts.stage import CANARY_BEGINS, Stage

_PLACEHOLDER = re.compile("@([A-Z0-9_]+)@")
_WAIT_S = 30.0
_MAX_EXIT_CODE, _MAX_SIGNAL = 255, 64
# More processors than any machine has: the CPU time of a job cannot exceed its wall time multiplied by this number.
_MAX_CPU_SHARE = 1024
_TICK = b"tick"


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of an attempt.

    `wrong` lists the signs that the attempt did not fail as it should; it is empty if the box withstood the attempt.
    """

    attempt: Attempt
    wrong: tuple[str, ...]

    @property
    def held(self) -> bool:
        return not self.wrong


async def put(sandbox: Sandbox, attempt: Attempt, stage: Stage) -> Trial:
    """Make the attempt and judge the result.

    Raises:
        SandboxError: The box could not be created.
    """
    try:
        if attempt.beside:
            wrong = await _beside_a_neighbour(sandbox, attempt, stage)
        else:
            wrong = await _make(sandbox, attempt, stage)
    finally:
        after = stage.damage()
        stage.restore()
    return Trial(attempt, tuple(dict.fromkeys((*wrong, *after))))


async def _make(sandbox: Sandbox, attempt: Attempt, stage: Stage) -> list[str]:
    job = _job(attempt, attempt.language, attempt.code, stage)
    outcome, meanwhile = await _run(sandbox, job, stage)
    if outcome is None:
        return meanwhile
    wrong = [*meanwhile, *judge(attempt, outcome)]
    if attempt.then:
        second = await sandbox.run(_job(attempt, Language.PYTHON, attempt.then, stage))
        wrong += judge(attempt, second)
    return wrong


async def _run(sandbox: Sandbox, job: Job, stage: Stage) -> tuple[Outcome | None, list[str]]:
    """Run the job until it ends, or until its code reports that it holds a resource.

    Returns:
        The outcome and no damage if the job has ended. None and the damage on the host if the job holds a resource.
    """
    holding = asyncio.Event()
    tail = b""

    def listen(_stream: Stream, data: bytes) -> None:
        nonlocal tail
        tail = tail[-len(HOLDING) :] + data
        if HOLDING.encode() in tail:
            holding.set()

    running = asyncio.ensure_future(sandbox.run(job, on_output=listen))
    held = asyncio.ensure_future(holding.wait())
    try:
        await asyncio.wait((running, held), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return running.result(), []
        return None, stage.damage()
    finally:
        await _cancel(held, running)


async def _beside_a_neighbour(sandbox: Sandbox, attempt: Attempt, stage: Stage) -> list[str]:
    """Make the attempt while another box runs that has the stage's secret.

    Check that the attempt does not disturb the other box.
    """
    ticks = asyncio.Condition()
    seen = bytearray()

    async def tell() -> None:
        async with ticks:
            ticks.notify_all()

    tasks: set[asyncio.Task[None]] = set()

    def listen(_stream: Stream, data: bytes) -> None:
        seen.extend(data)
        tasks.add(asyncio.ensure_future(tell()))

    async def ticked(after: int) -> None:
        async with ticks:
            await ticks.wait_for(lambda: seen.count(_TICK) > after)

    job = Job(code=NEIGHBOUR, env={"SECRET": stage.secret}, argv=(stage.secret,), limits=LIMITS)
    neighbour = asyncio.ensure_future(sandbox.run(job, on_output=listen))
    try:
        async with asyncio.timeout(_WAIT_S):
            await _first(neighbour, ticked(0))
            wrong = await _make(sandbox, attempt, stage)
            await _first(neighbour, ticked(seen.count(_TICK)))
        wrong += ["the neighbour was disturbed"] if b"touched" in seen else []
    except (TimeoutError, EOFError):
        wrong = ["the neighbour stopped working"]
    finally:
        await _cancel(neighbour, *tasks)
    return wrong


async def _first(neighbour: "asyncio.Future[Outcome]", waiting: Coroutine[Any, Any, None]) -> None:
    """Wait for `waiting`, or for the other box to end.

    Raises:
        EOFError: The other box ended first.
    """
    task = asyncio.ensure_future(waiting)
    try:
        await asyncio.wait((neighbour, task), return_when=asyncio.FIRST_COMPLETED)
        if neighbour.done():
            neighbour.result()
            raise EOFError
    finally:
        await _cancel(task)


async def _cancel(*tasks: "asyncio.Future[Any]") -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError, SandboxError):
            await task


def _job(attempt: Attempt, language: Language, code: str, stage: Stage) -> Job:
    names = stage.names()
    text = _PLACEHOLDER.sub(lambda found: names[found[1]], code)
    text = PRELUDES[language] + text + (POSTLUDES[language] if End.OK in attempt.ends else "")
    workspace = Mount(stage.workspace, attempt.workspace) if attempt.workspace else None
    return Job(language=language, code=text, workspace=workspace, limits=attempt.limits)


def judge(attempt: Attempt, outcome: Outcome) -> list[str]:
    """Return descriptions of everything in the outcome that shows that the attempt did not fail as it should."""
    text = _all_text(outcome)
    wrong = list(_malformed(outcome))
    if WORKED in text:
        line = next((line for line in text.splitlines() if WORKED in line), "")
        wrong.append(f"the attempt worked: {line.partition(WORKED)[2].strip()[:200]}")
    if CANARY_BEGINS in text:
        wrong.append("the outcome contains a secret of the host or of a neighbour")
    if FORGED in f"{outcome.value!r} {outcome.error!r} {outcome.files!r}":
        wrong.append("a forged answer was accepted")
    if outcome.end not in attempt.ends:
        ends = " or ".join(attempt.ends)
        wrong.append(f"the job ended with {outcome.end} instead of {ends}: {_last_line(outcome)}")
    elif not _was_tried(attempt, outcome, text):
        wrong.append(f"the attempt itself has a bug: {_last_line(outcome)}")
    return wrong


def _all_text(outcome: Outcome) -> str:
    streams = (outcome.stdout + b"\n" + outcome.stderr).decode(errors="replace")
    error = f"{outcome.error.message}\n{outcome.error.traceback}" if outcome.error else ""
    return f"{streams}\n{outcome.value!r}\n{error}\n{outcome.files!r}"


def _last_line(outcome: Outcome) -> str:
    said = (
        f"{outcome.error.type}: {outcome.error.message}"
        if outcome.error
        else (outcome.stderr or outcome.stdout).decode(errors="replace")
    )
    return (said.strip().splitlines() or [""])[-1][:200]


def _was_tried(attempt: Attempt, outcome: Outcome, text: str) -> bool:
    """Return whether the attempt was really made and refused, instead of failing because of a bug in its code."""
    if "*" in attempt.raises or End.OK not in attempt.ends:
        return True
    if attempt.language is not Language.PYTHON:
        return TRIED in text
    if outcome.end is not End.ERROR or outcome.error is None:
        return True
    kind = outcome.error.type
    known = getattr(builtins, kind, None)
    return kind in (*attempt.raises, "gaierror") or (isinstance(known, type) and issubclass(known, OSError))


def _malformed(outcome: Outcome) -> Iterator[str]:
    """Yield descriptions of values that no outcome may have, even if the code of the job reports them."""
    if outcome.exit_code is not None and not 0 <= outcome.exit_code <= _MAX_EXIT_CODE:
        yield f"the exit code is {outcome.exit_code}"
    if outcome.signal is not None and not 0 < outcome.signal <= _MAX_SIGNAL:
        yield f"the signal is {outcome.signal}"
    if outcome.files:
        yield f"the outcome has files that were not requested: {sorted(outcome.files)}"
    if outcome.error is not None:
        fields = (outcome.error.type, outcome.error.message, outcome.error.traceback)
        if not all(isinstance(field, str) for field in fields):
            yield "a field of the error is not a string"
    if not 0 <= outcome.usage.cpu_s <= _MAX_CPU_SHARE * max(outcome.usage.wall_s, 0.01):
        yield f"the CPU time is {outcome.usage.cpu_s}"
    try:
        json.dumps(outcome.value)
    except (TypeError, ValueError, RecursionError):
        yield "the value cannot be written as JSON"
