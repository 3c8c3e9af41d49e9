"""MCP servers as modules of an engine, with real processes, real HTTP, and the official SDK on both sides."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine import Engine
from engine.app.settings import Settings
from engine.contract.failure import FailureClass
from engine.contract.result import ToolResult
from engine.contract.spec import Annotations
from engine.remote import mcp_http, mcp_process
from engine.remote import modules as rules
from engine.remote.mcp_tools import LISTING_BYTES
from tests.eventually import eventually
from tests.remote.elsewhere import elsewhere, endless, raw

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = "tests.remote.mcp_server_script"
DEADLINE_S = 60


def stdio(folder: Path, **more: Any) -> dict[str, Any]:
    env = {"PYTHONPATH": str(REPOSITORY), **more.pop("env", {})}
    return {"command": sys.executable, "args": ["-m", SCRIPT, "stdio", str(folder)], "env": env, **more}


@asynccontextmanager
async def engine_of(home: Path, modules: dict[str, Any] | None = None, **servers: Any) -> AsyncIterator[Engine]:
    settings = Settings.model_validate({"mcp_servers": servers, "modules": modules or {}})
    async with asyncio.timeout(DEADLINE_S):
        async with Engine.open(home / "home", settings=settings, packs=False, environ={}) as engine:
            yield engine


@asynccontextmanager
async def http_server(folder: Path, port: int = 0) -> AsyncIterator[int]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", SCRIPT, "http", str(folder), str(port)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(DEADLINE_S):
            found = int(await process.stdout.readline())
        yield found
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def starts(folder: Path) -> list[int]:
    file = folder / "starts"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def failed(result: ToolResult) -> tuple[FailureClass, str, bool]:
    assert not result.success
    assert result.failure is not None
    return result.failure.failure_class, result.failure.reason, result.failure.may_have_started


@pytest.mark.spec("MOD-6")
async def test_tools_of_a_server_process_are_listed_and_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    seen: list[tuple[str, float | None]] = []
    async with engine_of(tmp_path, far=stdio(tmp_path, env={"GIVEN": "1"})) as engine:
        assert starts(tmp_path) == []  # nothing is started before it is needed
        specs = {spec.name: spec for spec in await engine.get_active_tool_definitions()}
        assert specs["far.echo"].parameters["required"] == ["text"]
        assert specs["far.echo"].annotations == Annotations(destructive=True)  # whatever it says of itself
        echoed = await engine.call("far.echo", {"text": "hi"})
        assert (echoed.message, echoed.output) == ("hi", {"result": "hi"})
        assert (await engine.call("far.point", {})).output == {"x": 1, "y": 2}
        known = (await engine.call("far.environment", {})).output["result"]
        assert "GIVEN" in known
        assert "PATH" in known
        assert "OPENAI_API_KEY" not in known
        wrong = await engine.call("far.fails", {"why": "no such thing"})
        assert "no such thing" in wrong.error
        assert failed(wrong)[0] is FailureClass.DIAGNOSTIC
        assert (await engine.call("far.steps", {}, progress=lambda *told: seen.append(told))).message == "done"
        assert seen == [("step 1", 0.25), ("step 2", 0.5), ("step 3", 0.75)]
        picture = await engine.call("far.picture", {})
        (created,) = picture.side_effects
        path = created.removeprefix("created:")
        assert path in str(picture.message)
        assert (engine.services.home.workspace / path).read_bytes() == b"\x89PNG not really"
        assert (await engine.call("far.chatters", {})).message == "said"
        (server,) = starts(tmp_path)
    assert not psutil.pid_exists(server)


@pytest.mark.spec("MOD-6")
async def test_cancellations_are_forwarded_to_the_server_and_tool_changes_are_received(tmp_path: Path) -> None:
    async with engine_of(tmp_path, far=stdio(tmp_path, trusted=True)) as engine:
        specs = {spec.name: spec for spec in await engine.get_active_tool_definitions()}
        assert specs["far.echo"].annotations == Annotations(read_only=True, idempotent=True)
        assert specs["far.pid"].annotations == Annotations(destructive=True)  # silence
        task = asyncio.create_task(engine.call("far.waits", {}))
        await eventually((tmp_path / "began").exists)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await eventually((tmp_path / "cancelled").exists)
        before = engine.tools_generation()
        await engine.call("far.grow", {})
        await eventually(lambda: engine.tools_generation() > before)
        assert (await engine.call("far.grown", {})).message == "grown"
        assert len(starts(tmp_path)) == 1


@pytest.mark.spec("MOD-6", "MOD-3")
async def test_a_crashed_server_is_restarted_with_increasing_delays(tmp_path: Path) -> None:
    async with engine_of(tmp_path, far=stdio(tmp_path)) as engine:
        first = (await engine.call("far.pid", {})).output["result"]
        died = await engine.call("far.dies", {})
        assert failed(died) == (FailureClass.DIAGNOSTIC, "unreachable", True)  # it may have happened
        second = (await engine.call("far.pid", {})).output["result"]
        assert second != first
        os.kill(second, signal.SIGKILL)
        await eventually(lambda: not psutil.pid_exists(second))
        (tmp_path / "dies at once").touch()
        errors = [(await engine.modules.refresh())[0].error for _ in range(4)]
        assert "times in a row; it is started again in" in errors[-1]
        assert len(starts(tmp_path)) <= 4
        assert "far.pid" in {spec.name for spec in await engine.get_active_tool_definitions()}


@pytest.mark.spec("MOD-6")
async def test_a_server_that_does_not_exit_is_killed_with_its_child_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_process, "GRACE_S", 0.2)
    (tmp_path / "stubborn").touch()
    async with engine_of(tmp_path, far=stdio(tmp_path)) as engine:
        assert (await engine.call("far.echo", {"text": "hi"})).success
        child = int((tmp_path / "child").read_text())
        (server,) = starts(tmp_path)
    await eventually(lambda: gone(child) and gone(server))


@pytest.mark.spec("MOD-6")
async def test_an_endless_message_closes_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_process, "MOST_LINE", 1 << 20)
    monkeypatch.setattr(mcp_process, "GRACE_S", 0.2)
    async with engine_of(tmp_path, far=stdio(tmp_path)) as engine:
        assert failed(await engine.call("far.floods", {})) == (FailureClass.DIAGNOSTIC, "unreachable", True)
        assert (await engine.call("far.echo", {"text": "again"})).message == "again"


@pytest.mark.spec("MOD-6")
async def test_a_command_that_cannot_be_started_is_reported(tmp_path: Path) -> None:
    async with engine_of(tmp_path, far={"command": "/nonexistent/server"}) as engine:
        result = await engine.call("far.echo", {"text": "hi"})
        assert failed(result) == (FailureClass.RETRYABLE, "module_unreachable", False)
        assert result.error.startswith("The module far does not answer. Nothing was run.")
        assert "nonexistent" not in result.error  # a caller has no business with the operator's paths
        (state,) = engine.modules.states()
        assert "/nonexistent/server" in state.error
        again = await engine.call("far.echo", {"text": "hi"})
        assert "nonexistent" not in again.error
        assert "\n" not in result.error.strip()


@pytest.mark.spec("MOD-6", "MOD-4")
async def test_a_call_to_a_server_has_a_timeout(tmp_path: Path) -> None:
    async with engine_of(tmp_path, {"module_timeout": 0.2}, far=stdio(tmp_path)) as engine:
        await engine.modules.refresh()  # so that it is up
        result = await engine.call("far.waits", {})
    assert result.error.startswith("Tool execution timed out (0.2s).")
    assert failed(result)[1:] == ("timeout", True)


@pytest.mark.spec("MOD-6")
async def test_tools_of_a_url_are_called_even_after_the_server_was_restarted(tmp_path: Path) -> None:
    async with http_server(tmp_path) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with engine_of(tmp_path, far={"url": url}) as engine:
            assert (await engine.call("far.echo", {"text": "hi"})).message == "hi"
            before = engine.tools_generation()
            await engine.call("far.grow", {})
            await eventually(lambda: engine.tools_generation() > before)
            assert (await engine.call("far.grown", {})).message == "grown"
            os.kill(starts(tmp_path)[0], signal.SIGKILL)
            await eventually(lambda: gone(starts(tmp_path)[0]))
            down = await engine.call("far.echo", {"text": "anyone?"})
            assert not down.success
            async with http_server(tmp_path, port):
                back = [await engine.call("far.echo", {"text": "back"}) for _ in range(3)]
                assert back[-1].message == "back", [each.error for each in back]


@pytest.mark.spec("MOD-6")
@pytest.mark.parametrize("status", [401, 403])
async def test_a_url_that_denies_access_is_not_retried(tmp_path: Path, status: int) -> None:
    async with elsewhere() as server:
        server.execute = raw(status, b"")
        async with engine_of(tmp_path, far={"url": f"{server.url}/mcp", "headers": {"x-key": "s3cret"}}) as engine:
            result = await engine.call("far.echo", {"text": "hi"})
        assert failed(result) == (FailureClass.FATAL, "denied", False)
        assert "check its headers" in result.error
        assert server.asked[0].headers["x-key"] == "s3cret"
        assert "s3cret" not in result.error
        assert len(server.asked) <= 4


@pytest.mark.spec("MOD-6")
async def test_an_endless_http_answer_is_aborted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_http, "MOST_LINE", 1 << 20)
    async with elsewhere() as server:
        server.execute = endless
        async with engine_of(tmp_path, far={"url": f"{server.url}/mcp"}) as engine:
            (state,) = await engine.modules.refresh()
            assert state.reachable is False
        assert server.broken


@pytest.mark.spec("MOD-6")
async def test_a_program_that_is_not_a_server_is_terminated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "DISCOVERY_S", 0.3)
    monkeypatch.setattr(mcp_process, "GRACE_S", 0.2)
    noted = tmp_path / "pid"
    script = f"echo $$ > {noted}; while true; do echo nonsense; sleep 1; done"
    async with engine_of(tmp_path, far={"command": "bash", "args": ["-c", script]}) as engine:
        (state,) = await engine.modules.refresh()
        assert state.error == "no manifest within 0.3 s"
        pid = int(noted.read_text())
        assert not gone(pid)  # a server may take longer than a list waits
    await eventually(lambda: gone(pid))


@pytest.mark.spec("MOD-6")
async def test_a_server_process_ends_when_its_engine_is_killed(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom tests.remote.test_mcp_modules import engine_of, stdio\n"
        "async def main():\n    folder = Path(sys.argv[1])\n"
        "    async with engine_of(folder, far=stdio(folder)) as engine:\n"
        "        await engine.call('far.pid', {})\n        print('up', flush=True)\n        await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, str(tmp_path)),
        cwd=REPOSITORY,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE_S):
        assert await process.stdout.readline() == b"up\n"
    (server,) = starts(tmp_path)
    process.kill()
    await process.wait()
    await eventually(lambda: gone(server))


@pytest.mark.spec("MOD-6", "FACE-2")
async def test_one_knackbox_can_be_a_module_of_another(tmp_path: Path) -> None:
    knackbox = {
        "command": sys.executable,
        "args": ["-m", "engine.interfaces.cli.main", "--home", str(tmp_path / "inner"), "mcp"],
        "env": {"PYTHONPATH": str(REPOSITORY)},
    }
    async with engine_of(tmp_path, inner=knackbox) as engine:
        await engine.modules.refresh()
        boxed = await engine.call("inner.execute", {"language": "python", "code": "6 * 7"})
        assert boxed.success, boxed.error
        assert boxed.output["value"] == 42
        wrong = await engine.call("inner.execute", {"language": "cobol", "code": "6 * 7"})
        assert failed(wrong) == (FailureClass.DIAGNOSTIC, "invalid_arguments", False)  # ours already refuse it
        raised = await engine.call("inner.execute", {"language": "python", "code": "1 / 0"})
        assert "ZeroDivisionError" in raised.text


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.spec("MOD-6", "MOD-3")
async def test_long_descriptions_are_truncated_and_only_tools_with_unusable_schemas_are_skipped(
    tmp_path: Path,
) -> None:
    (tmp_path / "lists much").write_text("1000")
    async with engine_of(tmp_path, far=stdio(tmp_path)) as engine:
        found = {spec.name: spec for spec in await engine.get_active_tool_definitions()}
        (state,) = engine.modules.states()
        kept = engine.services.home.manifests / "far.json"
        assert kept.stat().st_size < LISTING_BYTES + 64 * 1024
    assert len(found["far.pid99"].description) == 4_000
    assert {name: "deeper" in why or "larger" in why for name, why in state.left_out} == {
        "far.deep": True,
        "far.large": True,
    }


@pytest.mark.spec("MOD-6", "MOD-3")
async def test_a_list_above_the_size_limit_is_rejected_and_not_cached(tmp_path: Path) -> None:
    (tmp_path / "lists much").write_text("20000")
    async with engine_of(tmp_path, far=stdio(tmp_path)) as engine:
        assert not [spec for spec in await engine.get_active_tool_definitions() if spec.name.startswith("far.")]
        (state,) = engine.modules.states()
        assert "larger than 1 MiB" in state.error
        assert not (engine.services.home.manifests / "far.json").exists()
