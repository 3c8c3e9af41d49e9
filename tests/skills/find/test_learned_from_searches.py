"""An agent that finds a skill with `search_tools` and calls it teaches the index its query (GATE-3)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from acquired_skills.store.past_requests import PastRequests
from engine import Engine
from engine.contract.turn import Turn
from sandbox.namespace.backend import NamespaceSandbox
from tests.eventually import eventually
from tests.skills.parts import ENVIRON_WITHOUT_MUTANTS, opened_records, proposal

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("GATE-3"), pytest.mark.slow]
QUERY = "add one to a number"
CLIENT = Turn(user="ada", agent="an MCP client", use_tool_search_flow=True)  # no query, as in a turn of an MCP client


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(home: Path, box: NamespaceSandbox) -> AsyncIterator[Engine]:
    environ = {**ENVIRON_WITHOUT_MUTANTS, "KNACKBOX_SKILLS_COMPARED": "0"}
    async with Engine.open(home, sandbox=box, environ=environ) as opened:
        for name in ("add_one", "add_one_again"):
            offered = proposal(name)
            given = {"name": name, "description": offered.description, "code": offered.code, "tests": offered.tests}
            assert (await opened.call("create_skill", given)).success
        yield opened


def learned(home: Path) -> dict[str, tuple[str, ...]]:
    with opened_records(home) as records:
        return PastRequests(records).changed()


async def test_the_query_that_found_a_skill_is_learned_once_the_skill_has_succeeded(engine: Engine, home: Path) -> None:
    found = await engine.call("search_tools", {"query": QUERY}, CLIENT)
    assert "add_one" in found.text
    assert learned(home) == {}
    assert not (await engine.call("add_one", {"number": "one"}, CLIENT)).success
    assert (await engine.call("add_one", {"number": 1}, CLIENT)).output == 2
    await eventually(lambda: learned(home) == {"add_one": (QUERY,)})


async def test_nothing_is_learned_from_the_search_of_another_agent_or_one_that_did_not_find_the_skill(
    engine: Engine, home: Path
) -> None:
    other = Turn(user="bob", agent="an MCP client", use_tool_search_flow=True)
    await engine.call("search_tools", {"query": "add one, please", "limit": 1}, CLIENT)
    before = learned(home)
    assert (await engine.call("add_one_again", {"number": 1}, other)).output == 2
    await engine.call("search_tools", {"query": "read a text file", "limit": 1}, other)
    assert (await engine.call("add_one_again", {"number": 1}, other)).output == 2
    await engine.call("search_tools", {"query": QUERY}, other)
    assert (await engine.call("add_one_again", {"number": 1}, other)).output == 2
    await eventually(lambda: "add_one_again" in learned(home))
    assert learned(home) == {**before, "add_one_again": (QUERY,)}
