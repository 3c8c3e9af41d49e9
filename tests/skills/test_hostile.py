"""Hostile proposals are refused in a real box and reach nothing outside it; honest ones that look alike are admitted."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from acquired_skills.library import SkillLibrary
from acquired_skills.proposal import SkillRefused
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.hostile.answers import ANSWERS
from tests.skills.hostile.attempt import Attempt
from tests.skills.hostile.exits import EXITS
from tests.skills.hostile.forgery import FORGERY
from tests.skills.hostile.honest import HONEST
from tests.skills.hostile.host import HOST
from tests.skills.hostile.patches import PATCHES
from tests.skills.hostile.planted import PLANTED
from tests.skills.hostile.survivors import SURVIVORS
from tests.skills.hostile.vacuous import VACUOUS
from tests.skills.hostile.watched import WATCHED
from tests.skills.parts import opened_library

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATIENCE_S = 30  # for one verdict: nobody holds up an admission
ALL = (*EXITS, *PATCHES, *PLANTED, *WATCHED, *ANSWERS, *SURVIVORS, *FORGERY, *VACUOUS)
REFUSED = [attempt for attempt in ALL if not attempt.undecidable]
UNDECIDABLE = [attempt for attempt in ALL if attempt.undecidable]


def title(attempt: Attempt) -> str:
    return attempt.title


async def outcome(attempt: Attempt, library: SkillLibrary, marker: Path) -> list[str]:
    """What the agent hears is wrong with it; nothing when it is admitted. Nothing of it stays in the library."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            await library.create(attempt.proposal(str(marker)))
    except SkillRefused as refused:
        assert await library.find(attempt.name) is None
        texts = [problem.text.strip() for problem in refused.problems]
        assert all(texts)
        return texts
    await library.delete(attempt.name)
    return []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def library(box: NamespaceSandbox, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SkillLibrary]:
    async with opened_library(tmp_path_factory.mktemp("home"), box) as opened:
        yield opened


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that anyone on the host may make: the folder is open to all, as a box runs under another user."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    tmp_path.chmod(0o777)
    return tmp_path / "marker"


@pytest.mark.spec("SKILL-1", "SKILL-4", "SKILL-6", "SKILL-7")
@pytest.mark.parametrize("attempt", REFUSED, ids=title)
async def test_a_hostile_skill_is_refused_and_runs_only_in_a_box(
    attempt: Attempt, library: SkillLibrary, marker: Path
) -> None:
    problems = await outcome(attempt, library, marker)
    assert problems, "was admitted"
    assert not marker.exists()


@pytest.mark.spec("SKILL-1")
@pytest.mark.parametrize("attempt", [*HOST, *UNDECIDABLE], ids=title)
async def test_whatever_becomes_of_it_nothing_of_a_proposal_runs_outside_a_box(
    attempt: Attempt, library: SkillLibrary, marker: Path
) -> None:
    await outcome(attempt, library, marker)
    assert not marker.exists()


@pytest.mark.spec("SKILL-5", "SKILL-7")
@pytest.mark.parametrize("attempt", HONEST, ids=title)
async def test_an_honest_skill_that_looks_suspicious_is_admitted(
    attempt: Attempt, library: SkillLibrary, marker: Path
) -> None:
    assert await outcome(attempt, library, marker) == []
    assert not marker.exists()


def test_there_are_many_and_all_are_different() -> None:
    assert len(REFUSED) >= 28
    assert len(HONEST) >= 8
    assert len({attempt.title for attempt in (*ALL, *HOST, *HONEST)}) == len((*ALL, *HOST, *HONEST))
    assert len({(attempt.code, attempt.tests) for attempt in ALL}) == len(ALL)
