"""`knackbox skills audit` runs the admission of stored skills again by today's rules."""

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acquired_skills.model.proposal import Proposal
from acquired_skills.model.skill import SkillKind
from acquired_skills.proof.admitted_skill import sha256
from acquired_skills.store.skill_store import SkillStore
from tests.interfaces.cli import here
from tests.interfaces.terminal import at_terminal
from tests.skills.parts import opened_library, proposal, skill

pytestmark = pytest.mark.spec("SKILL-13")

WEAK = "return number + 1 if number < 100 else number - 1 if number < 1000 else number * 3"
NUMBER = {"number": {"from": "/arguments/number"}}
PIPELINE = {"steps": [{"name": "one", "call": "add_one", "inputs": NUMBER}], "output": {"from": "/one"}}
CASES = [{"arguments": {"number": 1}, "expect": 2}]


async def stored(home: Path, proposals: list[tuple[Proposal, SkillKind]]) -> None:
    """Store skills without proof, as an earlier release with weaker rules might have done."""
    home.mkdir()
    async with opened_library(home) as library:
        for number, (one, kind) in enumerate(proposals):
            made = skill(one.name, 1, one.code.encode(), one.tests.encode())
            created = f"2026-01-0{number + 1}T00:00:00+00:00"
            calls = ("add_one",) if kind is SkillKind.COMPOSED else ()
            made = replace(made, created=created, kind=kind, calls=calls, description=one.description)
            assert made.code_sha256 == sha256(one.code)
            await library.publish(made, one, 0)


def test_an_audit_lists_skills_that_would_be_refused_today_and_disables_them_only_on_request(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "data"
    pipeline = Proposal("add_to_one", "Adds one to any number.", json.dumps(PIPELINE), json.dumps(CASES))
    wrong = replace(pipeline, name="add_wrongly", tests=json.dumps([{"arguments": {"number": 1}, "expect": 3}]))
    calls = "".join(f"    assert increment({number}) == {number + 1}\n" for number in (1, 5, 9, 20))
    sound = proposal(
        tests=f"from add_one import add_one\n\n\ndef test_adds():\n{calls.replace('increment', 'add_one')}"
    )
    again = proposal("increment", tests=f"from increment import increment\n\n\ndef test_adds():\n{calls}")
    asyncio.run(
        stored(
            home,
            [
                (sound, SkillKind.CODE),
                (proposal("add_weakly", WEAK), SkillKind.CODE),
                (again, SkillKind.CODE),
                (pipeline, SkillKind.COMPOSED),
                (wrong, SkillKind.COMPOSED),
            ],
        )
    )

    def audit(*more: str) -> Any:
        ran = here(capfd, "--home", str(home), "skills", "audit", "--json", *more)
        assert ran.code == 0, ran.err
        return {one["name"]: one for one in ran.last}

    found = audit()
    verdicts = {name: (one["verdict"], [each["part"] for each in one["problems"]]) for name, one in found.items()}
    assert verdicts == {
        "add_one": ("admitted", []),
        "add_to_one": ("admitted", []),
        "add_weakly": ("refused", ["expected"]),
        "add_wrongly": ("refused", ["green"]),
        "increment": ("refused", ["duplicate"]),
    }
    assert "add_one" in found["increment"]["problems"][0]["text"]
    store = SkillStore(home / "acquired_skills")
    assert {store.read(name).state.value for name in found} == {"probation"}
    assert audit("add_weakly", "--disable")["add_weakly"]["disabled"] is True
    assert {name: store.read(name).state.value for name in ("add_one", "add_weakly", "increment")} == {
        "add_one": "probation",
        "add_weakly": "disabled",
        "increment": "probation",
    }
    shown = here(capfd, "--home", str(home), "skills", "audit", "add_weakly")
    assert (shown.code, "[expected]" in shown.out, "1 would be refused today" in shown.err) == (0, True, True)


def test_an_audit_reports_an_unreadable_skill_and_continues_with_the_others(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "data"
    both = [(proposal(), SkillKind.CODE), (proposal("add_two", "return number + 2"), SkillKind.CODE)]
    asyncio.run(stored(home, both))
    (home / "acquired_skills" / "add-one" / "scripts" / "add_one.py").write_text("changed by hand")
    ran = here(capfd, "--home", str(home), "skills", "audit", "--json")
    found = {one["name"]: one["verdict"] for one in ran.last}
    assert (ran.code, found.get("add_two")) == (0, "refused")
    assert found.get("add_one") in {None, "unknown"}  # set aside when the home was opened, or found to be damaged now


def test_an_audit_at_the_terminal_shows_its_progress(tmp_path: Path) -> None:
    home = tmp_path / "data"
    asyncio.run(stored(home, [(proposal(f"add_{n}", WEAK), SkillKind.CODE) for n in range(3)]))
    code, shown = at_terminal(home, "skills", "audit", prompt="never asked", answer=str)
    assert code == 0, shown
    assert re.search(r"running the admission of every skill again .*[0-3]/3", shown)
