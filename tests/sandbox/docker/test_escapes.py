"""Makes every attempt of the escape suite that applies to containers, each in a new container; and the self-check."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from sandbox.docker.backend import DockerSandbox
from sandbox.docker.config import DockerConfig
from sandbox.self_check import Verdict, self_check
from sandbox.self_check.attempts.attempt import Attempt
from sandbox.self_check.attempts.stage import Stage
from sandbox.self_check.attempts.suite import attempts_on
from sandbox.self_check.attempts.trial import put

pytestmark = [pytest.mark.docker, pytest.mark.asyncio(loop_scope="module")]


def case(attempt: Attempt) -> object:
    return pytest.param(attempt, id=attempt.name, marks=pytest.mark.spec("BOX-5", "BOX-9"))


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(DockerSandbox.name) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(stage: Stage) -> AsyncIterator[DockerSandbox]:
    """Start a sandbox after the secrets exist: they must not be inherited through the environment."""
    async with DockerSandbox(DockerConfig()) as sandbox:
        yield sandbox


@pytest.mark.parametrize("attempt", [case(each) for each in attempts_on("docker")])
async def test_the_attempt_fails(box: DockerSandbox, stage: Stage, attempt: Attempt) -> None:
    trial = await put(box, attempt, stage)
    assert trial.held, f"{attempt.name}: {'; '.join(trial.wrong)}\n(should fail because {attempt.why})"


@pytest.mark.spec("BOX-14")
async def test_every_check_passes_except_those_of_unsupported_features(box: DockerSandbox) -> None:
    findings = await self_check(box, escapes=False)  # the escapes are attempted above, one by one
    assert [f"{each.name}: {each.detail}" for each in findings if each.failed] == []
    skipped = {each.name: each.detail for each in findings if each.verdict is Verdict.SKIPPED}
    assert skipped.keys() == {"a workspace can be copied", "numpy"}  # the image has only Debian's Python
    assert "has no copy-on-write workspaces" in skipped["a workspace can be copied"]
