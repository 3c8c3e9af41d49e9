"""Engines, boxes and models are killed at random while programs read and write: every effect happens exactly once.

Each case is a run of three programs, with or without calls that need an approval. Its answers are compared with those of
an undisturbed run. Set `KILL_SEED` to choose other cases.
"""

import json
import os
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine import Engine
from engine.agent.budget import Finish
from engine.app.conversation import open_conversation
from engine.app.people import People
from engine.app.settings import Settings
from tests.agent.model_process import BEFORE, HALF, WITHIN, failing_model
from tests.agent.run_kills import Victims, last_request, victims
from tests.agent.run_script import Call, Script
from tests.agent.run_tools import Approving, Effects, source
from tests.agent.run_victims import MESSAGE
from tests.agent.scripted_model import serving

SEED = int(os.environ.get("KILL_SEED", "18"))
PROGRAMS = 3
RUN_S = 120.0
# What it draws and reads from the clock is an argument, so a program that ran again with other values would diverge.
PROGRAM = """
import asyncio, datetime, random, time, uuid
from knackbox import ToolError, tools

SAID = {{"send": "sent", "drop": "dropped", "pay": "paid"}}

async def once(name, n):
    try:
        return await tools[name](n=n)
    except ToolError as failed:
        if not failed.may_have_happened:
            raise
        if await tools.happened(what=f"{{name}} {{n}}") == "no":
            return await tools[name](n=n, **({{"attempt": 2}} if name == "pay" else {{}}))  # a key is used once
        return f"{{SAID[name]}} {{n}}"

async def main():
    seen = []
    for n in range({first}, {first} + 3):
        seen.append(await tools.happened(what=f"{{random.random()}} {{uuid.uuid4()}} {{datetime.datetime.now()}}"))
        seen += await asyncio.gather(tools.look(n=n), *(once(name, n) for name in {names}))
        seen.append(await tools.happened(what=str(time.time())))
    return seen

asyncio.run(main())
"""


class Case:
    """One kill.

    Attributes:
        approvals: Whether some calls need an approval.
        kind: What is killed.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.chance = random.Random(f"{SEED}/{number}")
        self.approvals = self.chance.random() < 0.5
        self.kind = ("engine", "box", "model")[number % 3]

    def __repr__(self) -> str:
        return f"case {self.number} of seed {SEED}: {self.kind}, {'with' if self.approvals else 'without'} approvals"

    @property
    def names(self) -> tuple[str, ...]:
        return ("pay", "send", "drop") if self.approvals else ("pay", "send")

    @property
    def rounds(self) -> list[list[Call]]:
        codes = [PROGRAM.format(first=3 * number, names=self.names) for number in range(PROGRAMS)]
        return [[("execute", {"language": "python", "code": code})] for code in codes]

    @property
    def effects(self) -> list[str]:
        return sorted(f"{name} {n}" for name in self.names for n in range(3 * PROGRAMS))


class KillingEffects(Effects):
    """Kills all boxes of this process when the tools have looked at the effects, or had one, so many times."""

    def __init__(self, home: Path, at: int, *, before: bool) -> None:
        super().__init__(home)
        self._left = at
        self._before = before
        self.killed = 0

    def happen(self, what: str) -> None:
        self._killing(lambda: super(KillingEffects, self).happen(what))

    def all(self) -> list[str]:
        found: list[str] = []
        self._killing(lambda: found.extend(super(KillingEffects, self).all()))
        return found

    def _killing(self, act: Callable[[], object]) -> None:
        self._left -= 1
        if self._left != 0:
            act()
            return
        for step in (self._kill, act) if self._before else (act, self._kill):
            step()

    def _kill(self) -> None:
        ours = os.readlink("/proc/self/ns/pid")
        for process in psutil.Process().children(recursive=True):
            with suppress(OSError, psutil.Error):
                if os.readlink(f"/proc/{process.pid}/ns/pid") != ours:
                    os.kill(process.pid, signal.SIGKILL)
                    self.killed += 1


def said(body: dict[str, Any]) -> list[Any]:
    """Return what the programs returned, without the lines about their calls, which count repeated ones."""
    texts = [each["content"] for each in body["messages"] if each["role"] == "tool"]
    return [json.loads(text.partition("\nCalls:")[0]) for text in texts]


async def work(home: Path, model_url: str, effects: Effects) -> None:
    """Work on the run in this process to its end."""
    values = {
        "model": {"name": "scripted", "base_url": model_url, "timeout_s": 20.0},
        "policy": {"approval": "destructive"},
    }
    settings, people = Settings.model_validate(values), People(approver=Approving())
    async with (
        Engine.open(home, settings=settings, sources=[source(effects)], people=people, environ={}) as engine,
        open_conversation(engine) as conversation,
    ):
        report = await conversation.run(MESSAGE)
    assert (report.finish, report.answer) == (Finish.ANSWER, "All done."), report


async def kill_engine(case: Case, home: Path, each: Victims, writes: int) -> list[Any]:
    number, moment = case.chance.randint(1, writes), case.chance.choice(("before", "after"))
    async with serving(Script(case.rounds)) as model:
        await each.work(home, model.base_url, number, moment, packs=True)
        report = await each.work(home, model.base_url, packs=True)
        assert report["finish"] in ("answer", "ended"), (case, report)
        return said(last_request(model))


async def kill_box(case: Case, home: Path) -> list[Any]:
    acts = PROGRAMS * 3 * (2 + len(case.names))  # looks at the effects, and effects
    effects = KillingEffects(home, case.chance.randint(1, acts), before=case.chance.random() < 0.5)
    async with serving(Script(case.rounds)) as model:
        await work(home, model.base_url, effects)
        assert effects.killed, (case, "no box was killed")
        return said(last_request(model))


async def kill_model(case: Case, home: Path) -> list[Any]:
    folder = home.with_name(f"{home.name}-model")
    folder.mkdir()
    faults = {case.chance.randint(1, PROGRAMS): case.chance.choice((BEFORE, WITHIN, HALF))}
    async with failing_model(folder, faults, 0.0, MESSAGE, case.rounds) as url:
        await work(home, url, Effects(home))
    assert [file.name for file in folder.iterdir() if file.suffix != ".json"] == [
        f"{at} {what}" for at, what in faults.items()
    ]
    return said(json.loads((folder / "latest.json").read_text()))


@pytest.mark.slow
@pytest.mark.spec("CODE-3", "CODE-4")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kills", [pytest.param(200, marks=pytest.mark.soak), 3])
async def test_no_kill_during_programs_loses_repeats_or_changes_anything(tmp_path: Path, kills: int) -> None:
    expected: dict[bool, list[Any]] = {}
    writes: dict[bool, int] = {}
    async with victims() as each:
        for case in (Case(number) for number in range(kills)):
            if case.approvals not in expected:
                home = tmp_path / f"undisturbed-{case.approvals}"
                async with serving(Script(case.rounds)) as model:
                    report = await each.work(home, model.base_url, packs=True)
                    assert (report["finish"], report["answer"]) == ("answer", "All done.")
                    writes[case.approvals], expected[case.approvals] = report["writes"], said(last_request(model))
                assert sorted(Effects(home).all()) == case.effects
            home = tmp_path / f"home-{case.number}"
            if case.kind == "engine":
                found = await kill_engine(case, home, each, writes[case.approvals])
            else:
                found = await (kill_box if case.kind == "box" else kill_model)(case, home)
            assert sorted(Effects(home).all()) == case.effects, case
            assert found == expected[case.approvals], case
