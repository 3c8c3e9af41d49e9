"""Makes every attempt of the suite on the default backend; each must be stopped in the way that the suite expects."""

import pytest

from sandbox.namespace.backend import NamespaceSandbox
from sandbox.self_check.attempts.attempt import Attempt, AttemptFamily
from sandbox.self_check.attempts.stage import Stage
from sandbox.self_check.attempts.suite import ALL, attempts_on
from sandbox.self_check.attempts.trial import put


def case(attempt: Attempt) -> object:
    return pytest.param(attempt, id=attempt.name, marks=pytest.mark.spec("BOX-1", "BOX-5"))


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("attempt", [case(each) for each in attempts_on("namespace")])
async def test_the_attempt_fails(box: NamespaceSandbox, stage: Stage, attempt: Attempt) -> None:
    trial = await put(box, attempt, stage)
    assert trial.held, f"{attempt.name}: {'; '.join(trial.wrong)}\n(should fail because {attempt.why})"


def test_every_attempt_has_a_unique_name_and_says_why_it_fails() -> None:
    assert len({attempt.name for attempt in ALL}) == len(ALL)
    assert all(attempt.why and attempt.code for attempt in ALL)


def test_no_family_is_empty() -> None:
    assert {attempt.family for attempt in ALL} == set(AttemptFamily)
