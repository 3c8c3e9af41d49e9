"""A skill without its tests: the answers of one program, the skill or a variant of it, in a fresh box (SKILL-7)."""

import asyncio
import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from acquired_skills.in_box.effort import Effort
from acquired_skills.jobs.box_files import ISOLATED, PYDANTIC, box_files
from acquired_skills.jobs.preload import preload_for
from acquired_skills.jobs.skill_job import call_job
from acquired_skills.model.proposal import Problem, Proposal
from acquired_skills.proof.facts import Told, told_of
from acquired_skills.proof.static_checks import imported_modules
from sandbox.contract import Busy, Call, Job, Limits, Mount, Outcome, Sandbox, SandboxError

AS_CALLED = 3  # calls that are made exactly as an agent's are
_MAX_SHOWN = 160
_LOADING_S = 3.0  # for the box, beside what the program may take

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answers:
    """forth: in the order of the calls. again: when the same process is asked once more. back: when another process is
    asked backwards. seconds: what `forth` and `again` took together."""

    forth: Sequence[Data]
    again: Sequence[Data]
    back: Sequence[Data]
    seconds: float


@dataclass(frozen=True, slots=True)
class Apart:
    """What runs a skill's code alone. environment: the requirements it is proved and run with."""

    proposal: Proposal
    environment: tuple[str, ...]
    sandbox: Sandbox
    effort: Effort

    async def answers(self, calls: Sequence[Data]) -> Answers:
        """The skill's answers, in two boxes: in one the calls in order, twice; in the other backwards.

        Raises ValueError with what happened when there are none, SandboxError when no box can run.
        """
        code, seconds = self.proposal.code, self.effort.answers_s
        twice, back = await asyncio.gather(
            self.ask(code, [*calls, *calls], seconds), self.ask(code, calls[::-1], seconds)
        )
        ended: list[Data] = [{"ended": True}] * len(calls)
        forth = twice["answers"] or ended * 2
        backwards = back["answers"] or forth[: len(calls)][::-1]
        return Answers(forth[: len(calls)], forth[len(calls) :], backwards[::-1], twice["seconds"])

    async def ask(self, program: str, calls: Sequence[Data], seconds: float, each_s: float = 0.0) -> Told:
        """What one program answers, alone in a box. seconds: for all calls. each_s: for one, 0 for no such limit.

        Raises ValueError with what happened when there are no answers, SandboxError when no box can run.
        """
        name = self.proposal.name
        arguments = {"name": name, "calls": list(calls), "seconds": seconds, "each_s": each_s}
        files = {**box_files(ISOLATED), f"skill/{name}.py": program.encode()}
        outcome = await self.sandbox.run(self._job(Call(ISOLATED, "answers", arguments), files, seconds + _LOADING_S))
        if not outcome.ok:
            raise ValueError(f"the box ended with {outcome.end}")
        told = told_of(outcome.value)
        if told["answers"] is not None and len(told["answers"]) != len(calls):
            raise ValueError("it gave another number of answers than there were calls")
        return told

    async def as_called(self, arguments: Data) -> Outcome:
        """One call in the job that an agent's call is, with an empty workspace. Raises SandboxError."""
        name, code = self.proposal.name, self.proposal.code
        job = call_job(
            name,
            code.encode(),
            arguments,
            plain=True,
            imports=imported_modules(code),
            environment=self.environment,
            timeout_s=self.proposal.timeout_s,
        )
        folder = await asyncio.to_thread(tempfile.mkdtemp)
        try:
            return await self.sandbox.run(replace(job, workspace=Mount(Path(folder))))
        except Busy:
            raise
        except SandboxError as error:
            if error.may_have_started:
                raise
            return await self.sandbox.run(job)  # this folder cannot be shown to a box: to Docker's, one of root's
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    def _job(self, call: Call, files: Mapping[str, bytes], seconds: float, always: tuple[str, ...] = PYDANTIC) -> Job:
        return Job(
            call=call,
            files=files,
            preload=preload_for(imported_modules(self.proposal.code), self.environment, always),
            limits=Limits(wall_s=seconds, cpu_s=seconds),
            requirements=self.environment,
        )


def unsteady(found: Answers) -> frozenset[int]:
    """Numbers of the calls that it answers now so and now so."""
    return frozenset(
        number
        for number, first in enumerate(found.forth)
        for order in (found.again, found.back)
        if _came(order[number]) != _came(first)
    )


def other_answers(
    name: str, calls: Sequence[Data], found: Answers, recorded: Mapping[int, Data], shaky: frozenset[int]
) -> Iterator[Problem]:
    """The first call that ends the process, or is answered otherwise than beside the tests (SKILL-7).

    recorded: its answers beside the tests, by number. shaky: those that are never the same.
    """
    for number, (call, first) in enumerate(zip(calls, found.forth, strict=True)):
        if "ended" in first:
            yield Problem(
                "replay",
                f"{shown(name, call)} ends its process, or takes too long, when it is called without the tests: "
                "return or raise instead.",
            )
            return
        with_tests = recorded.get(number)
        if number in shaky or with_tests is None or alike(with_tests, first):
            continue
        yield Problem(
            "replay",
            f"{shown(name, call)} gives {came_shown(with_tests)} beside its tests and {came_shown(first)} "
            "without them, called the same: it must not depend on who calls it, files of ours, chance or time.",
        )
        return


def alike(one: Data, other: Data) -> bool:
    """Whether two answers are the same, the order of what is in them aside."""
    return bool(_loosely(_came(one)) == _loosely(_came(other)))


def plain_arguments(call: Data, parameters: Sequence[str]) -> dict[str, Any] | None:
    """The arguments by name, when JSON holds them as they are and there are no files around; None otherwise."""
    if "files" in call or len(call["arguments"]) > len(parameters):
        return None
    given = {**dict(zip(parameters, call["arguments"], strict=False)), **call["named"]}
    try:
        return {name: as_json(value, exact=True) for name, value in given.items()}
    except TypeError:
        return None


def differs(outcome: Outcome, answer: Data) -> bool:
    """Whether an agent's call went otherwise than the answer says, as far as JSON tells."""
    if "raised" in answer:
        return outcome.ok or (outcome.error is not None and outcome.error.type != _raised(answer))
    try:
        expected = as_json(answer.get("value"))
    except TypeError:
        return False
    return not outcome.ok or bool(_loosely(outcome.value) != _loosely(expected))


def as_json(value: Any, *, exact: bool = False) -> Any:
    """Packed data as the JSON an agent gives and gets. exact: only what comes back as it was. Raises TypeError."""
    match value:
        case list():
            return [as_json(each, exact=exact) for each in value]
        case {"dict": [*pairs]} if len(value) == 1:
            if not all(isinstance(key, str) for key, _ in pairs):
                raise TypeError
            return {key: as_json(each, exact=exact) for key, each in pairs}
        case {"tuple": [*items]} if len(value) == 1 and not exact:
            return [as_json(each) for each in items]
        case dict():
            raise TypeError
    return value


def shown(name: str, call: Data) -> str:
    """A call as a reader would write it, shortened."""
    parts = [_text(each) for each in call["arguments"]] + [f"{key}={_text(v)}" for key, v in call["named"].items()]
    text = _short(f"{name}({', '.join(parts)})")
    return f"`{text}`"


def came_shown(answer: Data) -> str:
    """An answer, shortened."""
    if "raised" in answer:
        return f"{_raised(answer)}"
    if "value" in answer:
        return f"`{_short(_text(answer['value']))}`"
    return "nothing that can be told"


def _came(answer: Data) -> Any:
    """What of an answer has to be the same: the value, or the type of the exception, and what was changed."""
    if "raised" in answer:
        return ["raised", _raised(answer)]
    return ["value", answer.get("value"), "lost" in answer, "ended" in answer]


def _loosely(value: Any) -> Any:
    """Without the order of what is in it, which for sets of texts is another in every process."""
    return _ordered(value)[0]


def _ordered(value: Any) -> tuple[Any, str]:
    """The value in order, and what it is ordered by: short, so that depth costs nothing, whatever a box sends."""
    if isinstance(value, list):
        items = sorted(map(_ordered, value), key=itemgetter(1))
        return [each for each, _ in items], _digest("list", [key for _, key in items])
    if isinstance(value, dict):
        fields = {name: _ordered(each) for name, each in value.items()}
        return (
            {name: each for name, (each, _) in fields.items()},
            _digest("dict", sorted((name, key) for name, (_, key) in fields.items())),
        )
    text = json.dumps(value)
    return value, text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}{_digest('text', text)}"


def _digest(kind: str, of: Any) -> str:
    return hashlib.sha256(json.dumps([kind, of]).encode()).hexdigest()


def _raised(answer: Data) -> str:
    types = answer["raised"].get("types") if isinstance(answer["raised"], dict) else None
    return str(types[0]).rpartition(":")[2][:80] if isinstance(types, list) and types else "an exception"


def _text(value: Any) -> str:  # noqa: PLR0911 -- one for each kind
    match value:
        case list():
            return f"[{', '.join(map(_text, value))}]"
        case {"dict": [*pairs]}:
            return "{" + ", ".join(f"{_text(key)}: {_text(each)}" for key, each in pairs) + "}"
        case {"tuple": [*items]}:
            return f"({', '.join(map(_text, items))}{',' if len(items) == 1 else ''})"
        case {"set": [*items]} if items:
            return "{" + ", ".join(map(_text, items)) + "}"
        case {"object": [name, _]}:
            return f"{name}(…)"
        case dict() if len(value) == 1:
            return f"{next(iter(value))}({next(iter(value.values()))!r})"
    return repr(value)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
