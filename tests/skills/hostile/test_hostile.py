"""Hostile proposals are refused and reach nothing outside their box, while similar honest ones are admitted.

Every run tries some of each kind, and `make soak` tries all of them.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from acquired_skills.in_box.effort import Effort
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.proposal import SkillRefused
from acquired_skills.proof.snake_case import snake_case
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.hostile.answers import ANSWERS
from tests.skills.hostile.attempt import LEAVE_MARKER, Attempt
from tests.skills.hostile.documented import DOCUMENTED
from tests.skills.hostile.exits import EXITS
from tests.skills.hostile.forgery import FORGERY
from tests.skills.hostile.honest import HONEST
from tests.skills.hostile.honest_forms import HONEST_FORMS
from tests.skills.hostile.host import HOST
from tests.skills.hostile.odd_values import ODD_VALUES
from tests.skills.hostile.patches import PATCHES
from tests.skills.hostile.planted import PLANTED
from tests.skills.hostile.predicted import PREDICTED
from tests.skills.hostile.relaxed import RELAXED
from tests.skills.hostile.rich_honest import RICH_HONEST
from tests.skills.hostile.rich_values import RICH_VALUES
from tests.skills.hostile.survivors import SURVIVORS
from tests.skills.hostile.vacuous import VACUOUS
from tests.skills.hostile.watched import WATCHED
from tests.skills.parts import opened_library

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATIENCE_S = 60  # time limit in seconds of one admission, which no proposal may delay
ALL = (
    *EXITS,
    *PATCHES,
    *PLANTED,
    *WATCHED,
    *ANSWERS,
    *SURVIVORS,
    *FORGERY,
    *VACUOUS,
    *RELAXED,
    *RICH_VALUES,
    *PREDICTED,
    *ODD_VALUES,
    *DOCUMENTED,
)
REFUSED = [attempt for attempt in ALL if not attempt.undecidable]
UNDECIDABLE = [attempt for attempt in ALL if attempt.undecidable]
EVERY_TIME = frozenset(
    [
        "exit_at_import",
        "exit_when_called",
        "exit_by_atexit",
        "exit_of_pytest",
        "patched_item",
        "patched_report",
        "patched_assertion_error",
        "patched_builtins",
        "planted_conftest",
        "rewritten_tests",
        "pytest_is_loaded",
        "test_on_the_stack",
        "answers_read_from_disk",
        "number_that_equals_everything",
        "hash_of_its_own_file",
        "patched_os_write",
        "forged_report_on_descriptors",
        "fork_until_one_passes",
        "constant",
        "suppressed_assertion",
        "equal_to_itself",
        "skipped_when_wrong",
        "marker_at_import",
        "marker_from_a_pickled_value",
        "patches_its_own_constant",
        "random_with_a_seed",
        "any_result_will_do",
        "yes_and_no",
        "deep_arguments",
        "int_subclass_converted",
        "example_that_patches",
        "tests_of_a_helper",
        "public_helpers",
        "answers_in_the_arguments",
        "no_type_hints",
        "coroutine_that_is_true",
        "right_in_the_event_loop_of_a_test",
        "coroutine_function",
        "generator_function",
        "alias_that_changes",
        "camel_case",
        "instance_that_equals_everything",
        "property_that_works_when_asked",
        "cycle_to_get_lost_in",
        "linked_list",
        "tree_with_parents",
        "collections",
        "arrays_and_tables",
        "array_that_equals_everything",
    ]
)


def each(attempts: Sequence[Attempt]) -> list[Any]:
    """Return the attempts as parameters of a test."""
    return [
        pytest.param(one, id=one.title, marks=[] if one.title in EVERY_TIME else pytest.mark.soak) for one in attempts
    ]


async def outcome(attempt: Attempt, library: SkillLibrary, marker: Path) -> list[str]:
    """Propose an attempt and return the message of its refusal; "" if it is admitted. Remove it from the library."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            await library.create(attempt.proposal(str(marker)))
    except SkillRefused as refused:
        assert await library.find(snake_case(attempt.name)) is None
        texts = [problem.text.strip() for problem in refused.problems]
        assert all(texts)
        return texts
    await library.delete(snake_case(attempt.name))
    return []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def library(box: NamespaceSandbox, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SkillLibrary]:
    async with opened_library(
        tmp_path_factory.mktemp("home"), box, effort=Effort(enough=0.66, calls=0, every_gap=False)
    ) as opened:
        yield opened


@pytest.fixture
def marker() -> Iterator[Path]:
    """Return the path of a file that any user of the host may create, in case a part of a proposal runs there."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder, "marker")


@pytest.mark.parametrize("attempt", HOST[:1], ids=[HOST[0].title])
async def test_outside_a_box_hostile_code_leaves_the_marker(attempt: Attempt, marker: Path) -> None:
    proposal = attempt.proposal(str(marker))
    subprocess.run([sys.executable, "-c", proposal.code], check=True, timeout=60)
    assert marker.exists()
    marker.unlink()
    subprocess.run([sys.executable, "-c", LEAVE_MARKER.format(marker=str(marker))], check=True, timeout=60)
    assert marker.exists()


@pytest.mark.spec("SKILL-1", "SKILL-4", "SKILL-6", "SKILL-7")
@pytest.mark.parametrize("attempt", each(REFUSED))
async def test_a_hostile_skill_is_refused_and_runs_only_in_a_box(
    attempt: Attempt, library: SkillLibrary, marker: Path
) -> None:
    problems = await outcome(attempt, library, marker)
    assert problems, "was admitted"
    assert not marker.exists()


@pytest.mark.spec("SKILL-1")
@pytest.mark.parametrize("attempt", each([*HOST, *UNDECIDABLE]))
async def test_no_part_of_a_proposal_runs_outside_a_box_even_if_it_is_admitted(
    attempt: Attempt, library: SkillLibrary, marker: Path
) -> None:
    await outcome(attempt, library, marker)
    assert not marker.exists()


@pytest.mark.spec("SKILL-5", "SKILL-7")
@pytest.mark.parametrize("attempt", each([*HONEST, *HONEST_FORMS, *RICH_HONEST]))
async def test_an_honest_skill_that_looks_suspicious_is_admitted(
    attempt: Attempt, library: SkillLibrary, marker: Path
) -> None:
    assert await outcome(attempt, library, marker) == []
    assert not marker.exists()


async def test_the_attempts_are_many_and_all_different() -> None:
    assert len(REFUSED) >= 28
    assert len(HONEST) >= 8
    titles = [attempt.title for attempt in (*ALL, *HOST, *HONEST, *HONEST_FORMS, *RICH_HONEST)]
    assert len(set(titles)) == len(titles)
    assert set(titles) > EVERY_TIME
    assert len(EVERY_TIME & {attempt.title for attempt in REFUSED}) >= 20
    assert len({(attempt.code, attempt.tests, id(attempt.expected)) for attempt in ALL}) == len(ALL)
