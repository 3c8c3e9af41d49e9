"""One engine is a module of another engine, which lists and calls its tools."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import Engine
from engine.app.settings import Settings
from engine.contract.failure import FailureClass
from engine.interfaces.http.tokens import Caller
from tests.interfaces.http.servers import Server, running

pytestmark = [pytest.mark.spec("MOD-5")]

HOST = Caller("caller", "caller")
GUEST = Caller("guest", "gus", "guest")
ME = Caller("me", "mia")
ADMIN = Caller("admin", "ada", "admin")
ELSEWHERE = Caller("elsewhere", "eli", modules=frozenset({"weather"}))


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("far"), '[http]\nmodule_name = "far"\n') as server:
        yield server


def settings(far: Server, token: str) -> Settings:
    return Settings.model_validate({"modules": {"module_services": {"far": far.url}, "module_tokens": {"far": token}}})


async def test_tools_of_a_module_run_as_the_caller_of_its_token(far: Server, tmp_path: Path) -> None:
    chosen = settings(far, far.token(HOST))
    async with Engine.open(tmp_path, settings=chosen, packs=False, environ={}) as engine:
        specs = {spec.name: spec for spec in await engine.get_active_tool_definitions()}
        assert specs["far.echo"].parameters["required"] == ["value"]
        assert (await engine.call("far.echo", {"value": [1, {"a": None}]})).output == [1, {"a": None}]
        assert (await engine.call("far.whoami", {})).output["user"] == "caller"
        wrong = await engine.call("far.echo", {"no": 1})
        assert wrong.failure is not None
        assert wrong.failure.failure_class is FailureClass.DIAGNOSTIC
        assert "far.admins_alone" not in specs


async def test_an_unknown_module_token_gives_access_to_nothing(far: Server, tmp_path: Path) -> None:
    async with Engine.open(tmp_path, settings=settings(far, "nobody's"), packs=False, environ={}) as engine:
        assert not [spec for spec in await engine.get_active_tool_definitions() if spec.name.startswith("far.")]
        (state,) = await engine.modules.refresh()
        assert not state.reachable
        assert "401" in state.error


async def test_a_server_forwards_calls_to_its_modules(far: Server, tmp_path: Path) -> None:
    config = f'[modules]\nmodule_services = {{far = "{far.url}"}}\nmodule_tokens = {{far = "{far.token(HOST)}"}}\n'
    with running(tmp_path, config) as near:
        async with near.client(ADMIN) as admin:
            refreshed = (await admin.post("/refresh-tools")).json()["modules"]
            assert [(each["name"], each["reachable"]) for each in refreshed] == [("knackbox", True), ("far", True)]
            assert "far.echo" in refreshed[1]["tools"]
        async with near.client(ME) as client:
            body = {"tool_name": "far.echo", "arguments": {"value": 1}}
            assert (await client.post("/execute", json=body)).json()["result"] == 1
            body = {"tool_name": "echo", "arguments": {"value": 2}}
            assert (await client.post("/api/modules/far/execute", json=body)).json()["result"] == 2
            body = {"name": "far.whoami"}
            assert (await client.post("/api/call", json=body)).json()["output"]["user"] == "caller"
            assert "far.echo" in {each["name"] for each in (await client.get("/api/tools")).json()["tools"]}
            offered = {each["name"] for each in (await client.get("/manifest")).json()["tools"]}
            assert "knackbox.echo" in offered
            assert not [name for name in offered if "far." in name]
        async with near.client(ELSEWHERE) as client:
            body = {"tool_name": "far.echo", "arguments": {"value": 1}}
            refused = (await client.post("/execute", json=body)).json()
            assert not refused["success"]
            assert "module far is not available to this persona" in refused["error"]
            assert [each["name"] for each in (await client.get("/api/modules")).json()["modules"]] == ["knackbox"]
