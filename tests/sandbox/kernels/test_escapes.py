"""A cell has no more access to the host than a job: the suite of escapes is run in kernels too."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
import zmq.asyncio

from sandbox.contract import Language
from sandbox.namespace.backend import NamespaceSandbox
from sandbox.self_check.attempts.attempt import Attempt
from sandbox.self_check.attempts.stage import Stage
from sandbox.self_check.attempts.suite import ALL, attempts_on
from sandbox.self_check.attempts.trial import put
from tests.sandbox.kernels.cells_as_jobs import SENSELESS, CellsAsJobs, from_a_cell, senseless

pytestmark = pytest.mark.escapes


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cells(stage: Stage) -> AsyncIterator[CellsAsJobs]:
    """Start kernels after the secrets exist: they must not be inherited through the environment."""
    context = zmq.asyncio.Context()
    async with NamespaceSandbox() as box:
        made = CellsAsJobs(box, context)
        yield made
        await made.aclose()
    context.destroy(linger=0)


def case(attempt: Attempt) -> object:
    return pytest.param(attempt, id=attempt.name, marks=pytest.mark.spec("KERN-1", "BOX-5"))


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("attempt", [case(each) for each in attempts_on("namespace") if not senseless(each)])
async def test_the_attempt_fails_from_a_cell(cells: CellsAsJobs, stage: Stage, attempt: Attempt) -> None:
    trial = await put(cells, from_a_cell(attempt), stage)
    assert trial.held, f"{attempt.name}: {'; '.join(trial.wrong)}\n(should fail because {attempt.why})"


def test_the_omitted_attempts_exist_and_are_few() -> None:
    assert set(SENSELESS) <= {each.attempt for each in ALL}
    python = [each for each in attempts_on("namespace") if each.language is Language.PYTHON]
    assert sum(1 for each in python if senseless(each)) < len(python) // 20
