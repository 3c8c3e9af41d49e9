"""All runs of an engine keep the limits of the model's server together (SWARM-3)."""

import asyncio

import pytest
from pydantic_ai.messages import ModelRequest, UserPromptPart

from engine.agent.clients.endpoint import ModelEndpoint
from engine.agent.clients.model import ModelClient, ModelError
from engine.agent.clients.pacing import SHORT_S, ModelPacing, ModelPaused
from engine.agent.patience import Patience
from tests.agent.scripted_model import fails, says, serving

HELLO = [ModelRequest(parts=[UserPromptPart(content="hello")])]

pytestmark = pytest.mark.spec("SWARM-3")


class Seconds:
    """A clock that stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_one_retry_after_applies_to_all_clients_of_the_server() -> None:
    async with serving(fails(429, headers={"Retry-After": "60"}), says("hello")) as model:
        endpoint, now = ModelEndpoint("openai", "scripted", model.base_url), Seconds()
        pacing = ModelPacing(now=now)
        async with (
            ModelClient(endpoint, repeats=False, pacing=pacing) as first,
            ModelClient(endpoint, repeats=False, pacing=pacing) as second,
        ):
            with pytest.raises(ModelError, match="429"):
                await first.ask(HELLO)
            now.now = 10.0
            with pytest.raises(ModelError, match="asked for a pause, of which 50 s are left") as refused:
                await second.ask(HELLO)
            assert len(model.requests) == 1, "the second client did not ask"
            assert Patience(100.0, answered=False).wait_after(refused.value) == 50.0
            now.now = 61.0
            assert (await second.ask(HELLO)).text == "hello"


async def test_a_short_pause_is_waited_for_and_never_shortened() -> None:
    now = Seconds()
    pacing = ModelPacing(now=now)
    pacing.pause(SHORT_S + 1)
    pacing.pause(1.0)
    with pytest.raises(ModelPaused):
        async with pacing.request():
            pytest.fail("the request was sent during the pause")
    now.now = SHORT_S + 0.99
    waiting = asyncio.create_task(entered(pacing))
    await asyncio.sleep(0)
    assert not waiting.done()
    now.now = SHORT_S + 1
    await waiting


async def test_no_more_requests_than_configured_are_made_at_the_same_time() -> None:
    pacing, inside, most = ModelPacing(3), 0, 0

    async def request() -> None:
        nonlocal inside, most
        async with pacing.request():
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(request() for _ in range(20)))
    assert most == 3


async def entered(pacing: ModelPacing) -> None:
    async with pacing.request():
        return
