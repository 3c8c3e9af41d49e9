"""Run on a small disk by `test_full_disk`: makes a home, fills the disk, and runs commands."""

import asyncio
import contextlib
import io
import sys
from pathlib import Path

from acquired_skills.model.skill import SkillMissing, SkillState
from acquired_skills.store.ledger import Ledger
from acquired_skills.store.skill_store import SkillStore
from engine.interfaces.cli.main import run
from engine.stores.sqlite_file import DiskFull
from tests.skills.parts import opened_library, opened_records, proposal, skill
from tests.stores.full_disk import fill

PROPOSAL = proposal("add_one", "return number + 1")
CODE, TESTS = PROPOSAL.code.encode(), PROPOSAL.tests.encode()


def knackbox(home: Path, *words: str) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = run(["--home", str(home), *words])
    assert "Traceback" not in said.getvalue(), said.getvalue()
    return code, said.getvalue()


async def learn(home: Path) -> None:
    async with opened_library(home) as library:
        await library.publish(skill("add_one", 1, CODE, TESTS), PROPOSAL, 0)


async def change_with_little_space(home: Path, leave: int) -> None:
    """Check that folder and row agree after each change, and that an error says that the disk is full."""
    async with opened_library(home) as library:
        fill(home, leave)
        version = (await library.get("add_one")).version
        made = skill("add_one", version + 1, CODE, TESTS)
        changes = (
            lambda: library.set_state("add_one", SkillState.DISABLED),
            lambda: library.publish(made, PROPOSAL, version),
            lambda: library.delete("add_one"),
        )
        for change in changes:
            with contextlib.suppress(DiskFull):
                await change()
            (home / "ballast").rename(home / "ballast.held")
            check(home)
            (home / "ballast.held").rename(home / "ballast")
    (home / "ballast").unlink()
    async with opened_library(home) as library:
        check(home)
        if await library.find("add_one") is None:
            await library.restore("add_one")


def check(home: Path) -> None:
    try:
        stored = SkillStore(home / "acquired_skills").read("add_one")
    except SkillMissing:
        stored = None
    with opened_records(home) as records:
        ledger = Ledger(records)
        row = next((row.skill for row in ledger.rows() if row.name == "add_one"), None)
        assert row == stored or ledger.unfinished() == ["add_one"], (row, stored)


def main(home: Path) -> None:
    assert knackbox(home, "failures")[0] == 0
    asyncio.run(learn(home))
    fill(home)
    for words in (("skills", "list"), ("skills", "show", "add_one"), ("tools",), ("audit",), ("failures",)):
        code, said = knackbox(home, *words)
        assert code == 0, (words, said)
        assert "the disk is full, so nothing can be changed" in said, said
    assert "add_one" in knackbox(home, "skills", "list")[1]
    code, said = knackbox(home, "skills", "delete", "add_one")
    assert code == 3
    assert "the disk is full. Nothing was changed. Free some space" in said
    said = knackbox(home, "doctor", "--json")[1]
    assert "the disk is full" in said, said
    (home / "ballast").unlink()
    assert knackbox(home, "skills", "disable", "add_one")[0] == 0
    for leave in (0, 4, 8, 16, 32, 64, 96):
        asyncio.run(change_with_little_space(home, leave << 10))
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
