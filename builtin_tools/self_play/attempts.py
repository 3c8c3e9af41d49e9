"""`PlayAttempts`: lets the loop work on exercises within the budget of a cycle, and has the answers judged in boxes."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from builtin_tools.self_play.checks import passes
from builtin_tools.self_play.cycles import AGENT, Exercise, HeldOutTask
from builtin_tools.self_play.requests import AGAIN, UnusableAnswer
from engine.contract.allowed import Allowed, Selection
from engine.contract.background import BackgroundHost, MessageReport
from engine.contract.turn import Turn
from sandbox.contract import Sandbox

T = TypeVar("T")

AT_ONCE = 4  # attempts at held-out tasks at the same time
_NO_TOOLS = Allowed()
# Acquired skills only: they run in boxes, and in a trial they see no workspace. Those that connect are excluded.
_SKILLS = Allowed((Selection(skills=("*",)),), without_effects=frozenset({"network"}))
_ANSWERS = 3  # how often the model may answer one request


class BudgetUsedUp(Exception):
    """The tokens of the cycle are used up, or the model cannot be reached. The message says which."""


@dataclass(frozen=True, slots=True)
class PlayLimits:
    """The limits of a cycle.

    Attributes:
        wall_s: Seconds in all.
        tokens: Tokens of all requests.
        attempt_s: Seconds of one run of the loop.
    """

    wall_s: float = 600.0
    tokens: int = 500_000
    attempt_s: float = 120.0


def playing_turn(turn: Turn, allowed: Allowed) -> Turn:
    """Return the turn of an attempt: a trial with at most the rights of a turn, and without caps and modules."""
    return replace(
        turn,
        query=None,
        agent=AGENT,
        permission="guest" if turn.permission == "guest" else "user",
        caps=frozenset(),
        modules=frozenset(),
        allowed=allowed if turn.allowed is None else allowed.within(turn.allowed),
        use_tool_search_flow=False,
        trial=True,
    )


class PlayAttempts:
    """The requests and attempts of one cycle."""

    def __init__(self, host: BackgroundHost, sandbox: Sandbox, turn: Turn, model: str, limits: PlayLimits) -> None:
        self._host = host
        self._sandbox = sandbox
        self._asking = playing_turn(turn, _NO_TOOLS)
        self._attempting = playing_turn(turn, _SKILLS)
        self._model = model
        self._limits = limits
        self.tokens = 0

    async def ask(self, request: str, read: Callable[[str], T]) -> T:
        """Ask the model, without tools, until its answer can be read, three times at most.

        Args:
            request: The request.
            read: Reads an answer, and raises UnusableAnswer with the problem.

        Raises:
            UnusableAnswer: No answer could be read.
            BudgetUsedUp: There are no tokens left, or no model.
        """
        problem = ""
        for _ in range(_ANSWERS):
            report = await self._send(request + (AGAIN.format(problem=problem) if problem else ""), self._asking)
            try:
                return read(report.answer)
            except UnusableAnswer as error:
                problem = str(error)
        raise UnusableAnswer(problem)

    async def attempt(self, exercise: Exercise) -> tuple[bool, str]:
        """Let the loop answer an exercise. Return whether the check accepts the answer, and the answer.

        Raises:
            BudgetUsedUp: There are no tokens left, or no model.
            SandboxError: No box can run the check.
        """
        report = await self._send(exercise.question, self._attempting)
        if not report.answered:
            return False, report.answer
        return await passes(self._sandbox, exercise, report.answer), report.answer

    async def attempt_all(self, tasks: Sequence[HeldOutTask]) -> dict[int, bool]:
        """Let the loop answer held-out tasks. Return whether each is solved, by the number of its cycle.

        Raises:
            BudgetUsedUp, SandboxError: As for `attempt`.
        """
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(task: HeldOutTask) -> tuple[int, bool]:
            async with slots:
                return task.cycle, (await self.attempt(task.exercise))[0]

        try:
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(one(task)) for task in tasks]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return dict(each.result() for each in running)

    async def _send(self, message: str, turn: Turn) -> MessageReport:
        left = self._limits.tokens - self.tokens
        if left <= 0:
            raise BudgetUsedUp(f"The budget of {self._limits.tokens} tokens was used up.")
        report = await self._host.send(
            message, turn, most_tokens=left, most_s=self._limits.attempt_s, model=self._model
        )
        self.tokens += report.tokens
        if report.finish == "model_error":
            raise BudgetUsedUp(f"The model could not be reached: {report.answer[:300]}")
        return report
