"""The loop of self-play stops at a message, on request and after its cycles (PLAY-3)."""

import pytest

from builtin_tools.self_play.cycles import CycleState
from builtin_tools.self_play.play_loop import PlayLoop
from engine.app.conversation import open_conversation
from engine.contract.turn import Turn
from tests.builtin_tools.self_play.conftest import PlayHome
from tests.eventually import eventually


async def start(home: PlayHome, **arguments: object) -> PlayLoop:
    started = await home.call("self_play_loop", **arguments)
    assert started.success, started.error
    return home.engine.need(PlayLoop)


@pytest.mark.spec("PLAY-3", "TOOL-10")
async def test_the_loop_ends_after_max_cycles_and_uses_the_given_model(home: PlayHome) -> None:
    loop = await start(home, max_cycles=2, model="another")
    assert await loop.ended() == "It has played 2 cycles."
    assert [each.model for each in home.play.store.cycles()] == ["another", "another"]
    assert {body["model"] for body in home.requests} == {"another"}


@pytest.mark.spec("PLAY-3")
async def test_stop_self_play_stops_the_loop_after_its_cycle(home: PlayHome) -> None:
    loop = await start(home)
    assert (await home.call("self_play_loop")).failure.reason == "busy"  # type: ignore[union-attr]
    await eventually(lambda: home.learner.proposed)
    stopped = await home.call("stop_self_play")
    assert stopped.success
    assert await loop.ended() == "It was stopped on request."
    assert [each.state for each in home.play.store.cycles()] == [CycleState.KEPT]
    assert (await home.call("stop_self_play")).output["running"] is False


@pytest.mark.spec("PLAY-3")
async def test_stop_self_play_now_rolls_the_cycle_back(home: PlayHome) -> None:
    before = await home.stored()
    loop = await start(home)
    await eventually(lambda: home.learner.proposed)  # the proposed skill is being admitted, which takes seconds
    stopped = await home.call("stop_self_play", now=True)
    assert stopped.output == {"running": False, "cycles": 0, "why": "It was stopped on request."}
    assert await loop.ended() == "It was stopped on request."
    assert [each.state for each in home.play.store.cycles()] == [CycleState.ROLLED_BACK]
    assert await home.stored() == before


@pytest.mark.spec("PLAY-3")
async def test_a_message_of_a_user_stops_the_loop_before_the_model_is_asked(home: PlayHome) -> None:
    loop = await start(home)
    await eventually(lambda: home.learner.proposed)
    async with open_conversation(home.engine, turn=Turn(user="ann"), stream=False) as talk:
        await talk.run("Good morning!")
    assert await loop.running() is None
    assert await loop.ended() == "A user sent a message."
    assert [each.state for each in home.play.store.cycles()] == [CycleState.ROLLED_BACK]


@pytest.mark.spec("PLAY-3")
async def test_without_weaknesses_a_cycle_keeps_nothing(home: PlayHome) -> None:
    cycle = await home.play.play(Turn(user="nobody"))
    assert (cycle.state, cycle.why) == (CycleState.NOTHING, "The record shows no weakness.")
    assert home.requests == []
