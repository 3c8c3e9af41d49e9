"""`execute` with stateful=true in a complete engine: state, lost states, and refused arguments."""

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from builtin_tools.kernels.service import Kernels
from engine.app.engine import Engine
from engine.app.sandboxes import unsafe_sandbox
from engine.app.settings import Settings
from engine.contract.failure import FailureClass
from tests.builtin_tools.kernels.conftest import DIE, LOST, Agent
from tests.eventually import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("TOOL-1")]

STUBBORN = """
import time
while True:
    try: time.sleep(30)
    except KeyboardInterrupt: pass
"""


async def test_variables_are_kept_between_calls(agent: Agent) -> None:
    assert (await agent.cell("import math\nx = 20")).text == "The run completed and printed nothing."
    result = await agent.cell("print('so'); math.floor(x + 1.5)")
    assert result.text == "stdout:\nso\nvalue:\n21"
    assert result.output["outputs"] == [
        {"kind": "stream", "name": "stdout", "text": "so"},
        {"kind": "result", "media_types": ["text/plain"], "files": [], "text": "21"},
    ]
    assert (result.output["cell"], result.output["state_lost"]) == (2, "")
    assert "kernel:default" in result.side_effects


async def test_calls_without_stateful_still_get_a_fresh_box(agent: Agent) -> None:
    await agent.cell("x = 1")
    fresh = await agent.engine.call("execute", {"language": "python", "code": "'x' in dir()"}, agent.turn)
    assert fresh.output["value"] is False


@pytest.mark.spec("KERN-6")
async def test_each_user_agent_and_name_has_a_separate_kernel(agent: Agent) -> None:
    others = [
        replace(agent, turn=replace(agent.turn, user="eve")),
        replace(agent, turn=replace(agent.turn, agent=f"{agent.turn.agent}-2")),
        # If user and agent were joined without escaping, these would be the same text as the first ones.
        replace(agent, turn=replace(agent.turn, user=f"local/{agent.turn.agent}", agent="")),
    ]
    await agent.cell("secret = 1")
    for other in others:
        result = await other.cell("secret")
        assert "NameError" in result.text
    assert "NameError" in (await agent.cell("secret", kernel="other")).text
    assert (await agent.cell("secret")).text == "1"


async def test_the_workspace_is_the_kernels_working_directory(agent: Agent) -> None:
    await agent.engine.call("file_system", {"action": "write", "path": "in.txt", "content": "one"}, agent.turn)
    await agent.cell("open('out.txt', 'w').write(open('in.txt').read() + ' two')")
    assert (agent.workspace / "out.txt").read_text() == "one two"


@pytest.mark.spec("CALL-3")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"language": "node"}, "Python only"),
        ({"language": "bash"}, "Python only"),
        ({"stdin": "x"}, "no stdin"),
        ({"kernel": "../../etc"}, "kernel"),
        ({"kernel": "x" * 41}, "kernel"),
    ],
)
async def test_unsupported_arguments_are_refused_before_anything_runs(
    agent: Agent, arguments: dict[str, str], said: str
) -> None:
    result = await agent.cell("open('ran.txt', 'w')", **arguments)
    assert result.failure is not None
    assert (result.failure.failure_class, result.failure.reason) == (FailureClass.DIAGNOSTIC, "invalid_arguments")
    assert not result.failure.may_have_started
    assert said in result.text
    assert not (agent.workspace / "ran.txt").exists()


@pytest.mark.spec("KERN-4")
async def test_input_fails_with_advice(agent: Agent) -> None:
    result = await agent.cell("name = input('your name? ')")
    assert "put the text that it should read into the code" in result.text
    assert "ipykernel" not in result.text.lower().replace("stdinnotimplemented", "")


@pytest.mark.spec("FAIL-4", "KERN-4")
async def test_an_exception_is_diagnostic_with_traceback_and_earlier_output(agent: Agent) -> None:
    await agent.cell("x = 0")
    result = await agent.cell("print('before')\ndef half(n):\n    return n / x\nhalf(1)")
    assert result.failure is not None
    assert (result.failure.failure_class, result.failure.reason) == (FailureClass.DIAGNOSTIC, "code_failed")
    assert (result.audit.end, result.audit.attempts) == ("error", 1)
    for said in ("return n / x", "ZeroDivisionError: division by zero", "before"):
        assert said in result.text
    assert "\x1b" not in result.text
    assert (await agent.cell("x")).text == "0"


@pytest.mark.spec("KERN-5")
async def test_a_timeout_keeps_the_state_and_says_so(agent: Agent) -> None:
    await agent.cell("x = 0")
    result = await agent.cell("while True: x += 1", timeout_s=0.5)
    assert result.audit.end == "timeout"
    assert "kept" in result.text
    assert LOST not in result.text
    assert int((await agent.cell("x")).text) > 0


@pytest.mark.spec("KERN-5")
async def test_a_cell_that_ignores_its_interrupt_reports_the_lost_state_first(agent: Agent) -> None:
    result = await agent.cell(STUBBORN, timeout_s=0.3)
    assert result.audit.end == "timeout"
    assert result.text.startswith(LOST)
    assert "killed with its kernel" in result.text
    assert LOST not in (await agent.cell("1")).text


@pytest.mark.spec("KERN-5")
@pytest.mark.parametrize("code", ["'fine'", "1 / 0"])
async def test_a_loss_between_calls_is_reported_first_and_once(agent: Agent, code: str) -> None:
    await agent.cell("x = 1")
    await (await agent.boxed()).kill()
    texts = [(await agent.cell(code)).text for _ in range(3)]
    assert texts[0].startswith(LOST)
    assert [LOST in text for text in texts] == [True, False, False]
    assert ("fine" in texts[0]) or ("ZeroDivisionError" in texts[0])


@pytest.mark.spec("KERN-5")
async def test_a_cell_that_kills_its_kernel_is_not_retried(agent: Agent) -> None:
    result = await agent.cell(f"open('runs.txt', 'a').write('x'); {DIE}")
    assert (result.audit.attempts, result.audit.end) == (1, "killed")
    assert (agent.workspace / "runs.txt").read_text() == "x"


@pytest.mark.spec("KERN-5", "CALL-1")
async def test_a_cancelled_cell_that_ignores_interrupts_loses_the_state_and_the_next_result_reports_it(
    agent: Agent,
) -> None:
    await agent.cell("x = 1")
    heard = asyncio.Event()
    running = asyncio.ensure_future(
        agent.cell("print('there')" + STUBBORN, timeout_s=60, progress=lambda *_: heard.set())
    )
    async with asyncio.timeout(20):
        await heard.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    texts = [(await agent.cell("1")).text for _ in range(3)]
    assert [LOST in text for text in texts] == [True, False, False]
    assert "cancelled cell" in texts[0]


@pytest.mark.spec("KERN-5", "CALL-1")
async def test_a_cancelled_cell_that_stops_keeps_the_state(agent: Agent) -> None:
    await agent.cell("x = 1")
    heard = asyncio.Event()
    running = asyncio.ensure_future(
        agent.cell("print('there')\nwhile True: x = 2", timeout_s=60, progress=lambda *_: heard.set(), call_id="mine")
    )
    async with asyncio.timeout(20):
        await heard.wait()
    assert agent.engine._components.pipeline.cancel("mine")
    result = await running
    assert result.audit.end == "killed"
    after = await agent.cell("x")
    assert after.text == "2"


@pytest.mark.spec("KERN-5", "CALL-1")
@pytest.mark.parametrize("steps", range(0, 60, 4))
async def test_a_loss_is_reported_once_wherever_its_call_is_cancelled(agent: Agent, steps: int) -> None:
    """Cancel the call `steps` steps of the event loop after the kernel's death.

    The cancellation hits the writing of files, the recording of the failure, or nothing.
    """
    await agent.cell("x = 1")
    boxed = await agent.boxed()
    running = asyncio.ensure_future(agent.cell(DIE))
    async with asyncio.timeout(20):
        await boxed.gone()
    for _ in range(steps):
        await asyncio.sleep(0)
    running.cancel()
    (first,) = await asyncio.gather(running, return_exceptions=True)
    texts = [] if isinstance(first, BaseException) else [first.text]
    texts += [(await agent.cell("1")).text for _ in range(2)]
    assert sum(LOST in text for text in texts) == 1


async def test_output_is_reported_as_progress_while_the_cell_runs(agent: Agent) -> None:
    seen: list[str] = []
    running = asyncio.ensure_future(
        agent.cell(
            "import time\nprint('\\x1b[31mone\\x1b[0m', flush=True)\nwhile True: time.sleep(0.01)",
            progress=lambda said, _=None: seen.append(said),
            timeout_s=60,
        )
    )
    await eventually(lambda: seen)
    assert not running.done()
    assert (await agent.kernels("interrupt")).success
    assert "KeyboardInterrupt" in (await running).text
    assert seen == ["one"]


@pytest.mark.spec("KERN-6")
async def test_a_later_cell_with_other_imports_uses_the_same_kernel(agent: Agent) -> None:
    await agent.cell("x = 1")
    assert (await agent.cell("import pandas as pd\nx + len(pd.Series([1]))")).text == "2"


@pytest.mark.spec("KERN-6")
async def test_one_kernel_too_many_is_a_diagnostic_failure(tmp_path: Path) -> None:
    settings = Settings.model_validate({"kernels": {"warm": 0, "per_agent": 1}})
    async with Engine.open(tmp_path, settings=settings) as engine:
        agent = Agent(engine, engine.services.home.workspace)
        await agent.cell("x = 1")
        result = await agent.cell("open('ran.txt', 'w')", kernel="second")
        assert result.failure is not None
        assert (result.failure.failure_class, result.failure.reason) == (FailureClass.DIAGNOSTIC, "too_many_kernels")
        assert "default" in result.text
        assert result.audit.attempts == 1
        assert (await agent.kernels("stop")).success
        assert (await agent.cell("1", kernel="second")).success


@pytest.mark.spec("KERN-6")
async def test_an_idle_kernel_is_ended_and_the_next_call_reports_it(tmp_path: Path) -> None:
    settings = Settings.model_validate({"kernels": {"warm": 0, "idle_s": 0.05}})
    async with Engine.open(tmp_path, settings=settings) as engine:
        agent = Agent(engine, engine.services.home.workspace)
        await agent.cell("x = 1")
        boxed = await agent.boxed()
        if boxed is not None:
            async with asyncio.timeout(20):
                await boxed.gone()
        result = await agent.cell("1")
    assert result.text.startswith(LOST)
    assert "without a cell" in result.text


@pytest.mark.spec("KERN-6")
async def test_a_kernel_cannot_use_more_than_its_memory_limit(tmp_path: Path) -> None:
    settings = Settings.model_validate({"kernels": {"warm": 0, "memory_bytes": 256 << 20}})
    async with Engine.open(tmp_path, settings=settings) as engine:
        agent = Agent(engine, engine.services.home.workspace)
        assert "MemoryError" in (await agent.cell("x = bytearray(400 << 20)")).text


async def test_a_sandbox_without_kernels_refuses_stateful_calls(tmp_path: Path) -> None:
    async with Engine.open(tmp_path, environ={}, sandbox=unsafe_sandbox()) as engine:
        result = await Agent(engine, engine.services.home.workspace).cell("open('ran.txt', 'w')")
        assert result.failure is not None
        assert (result.failure.failure_class, result.failure.may_have_started) == (FailureClass.FATAL, False)
        assert "The sandbox unsafe does not support kernels" in result.text
        assert not (engine.services.home.workspace / "ran.txt").exists()


async def test_closing_the_engine_removes_kernels_and_socket(tmp_path: Path) -> None:
    async with Engine.open(tmp_path, environ={}) as engine:
        agent = Agent(engine, engine.services.home.workspace)
        await agent.cell("1")
        boxed = await agent.boxed()
        assert len(list((tmp_path / "run").iterdir())) == 1
    assert not boxed.alive
    assert list((tmp_path / "run").iterdir()) == []
    assert engine.need(Kernels).opened is not None


async def test_jupyter_is_not_imported_before_the_first_stateful_call(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\nfrom engine.app.engine import Engine\n"
        "async def main():\n"
        "    async with Engine.open(sys.argv[1], environ={}) as engine:\n"
        "        await engine.call('kernels', {'action': 'list'})\n"
        "        await engine.get_active_tool_definitions()\n"
        "asyncio.run(main())\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules} & {'zmq', 'jupyter_client', 'nbformat'}))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""
    assert not (tmp_path / "run").exists()
