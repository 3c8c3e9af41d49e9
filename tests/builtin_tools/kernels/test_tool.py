"""The tool `kernels`: list, variables, interrupt, stop and export, only for the agent's own kernels."""

import asyncio
from dataclasses import replace

import nbformat
import pytest

from engine.contract.failure import FailureClass
from tests.builtin_tools.kernels.conftest import DIE, LOST, Agent
from tests.builtin_tools.kernels.test_cell_display import PNG

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("KERN-6")]

PICTURE = f"from IPython.display import Image, display\ndisplay(Image(data={PNG!r}))"


async def test_an_agent_sees_only_its_own_kernels(agent: Agent) -> None:
    other = replace(agent, turn=replace(agent.turn, user="eve"))
    assert (await agent.kernels("list")).output == {"kernels": []}
    await agent.cell("1")
    await agent.cell("1", kernel="second")
    rows = (await agent.kernels("list")).output["kernels"]
    assert [(row["kernel"], row["state"], row["cells"]) for row in rows] == [
        ("default", "idle", 1),
        ("second", "idle", 1),
    ]
    assert all(1 << 20 < row["memory_bytes"] < 1 << 30 for row in rows)
    assert (await other.kernels("list")).output == {"kernels": []}
    for action in ("variables", "interrupt", "stop", "export"):
        result = await other.kernels(action, kernel="second")
        assert result.failure is not None
        assert (result.failure.failure_class, result.failure.reason) == (FailureClass.DIAGNOSTIC, "not_found")
    assert (await agent.cell("1", kernel="second")).success


async def test_a_busy_kernel_is_listed_as_busy_and_can_be_interrupted(agent: Agent) -> None:
    heard = asyncio.Event()
    running = asyncio.ensure_future(
        agent.cell("x = 1\nprint('there')\nwhile True: pass", progress=lambda *_: heard.set(), timeout_s=60)
    )
    async with asyncio.timeout(20):
        await heard.wait()
    assert "busy" in (await agent.kernels("list")).text
    assert (await agent.kernels("interrupt")).success
    assert "KeyboardInterrupt" in (await running).text
    assert (await agent.cell("x")).text == "1"


async def test_a_kernel_stopped_by_its_agent_starts_afresh_without_a_report(agent: Agent) -> None:
    await agent.cell("x = 1")
    assert (await agent.kernels("stop")).success
    result = await agent.cell("'x' in dir()")
    assert (result.output["state_lost"], result.text) == ("", "False")


@pytest.mark.spec("KERN-7")
async def test_a_kernel_is_exported_even_after_its_state_was_lost_or_it_was_stopped(agent: Agent) -> None:
    await agent.cell("x = 1\nx")
    await agent.cell(PICTURE)
    await agent.cell(DIE)
    await agent.cell("1 / 0")
    await agent.kernels("stop")
    result = await agent.kernels("export", path="notes/all.ipynb")
    assert result.side_effects == ("created:notes/all.ipynb",)
    found = nbformat.read(agent.workspace / "notes/all.ipynb", as_version=4)
    nbformat.validate(found)
    assert [cell.cell_type for cell in found.cells] == ["code", "code", "code", "markdown", "code"]
    assert found.cells[0].outputs[0].data["text/plain"] == "1"
    assert found.cells[1].outputs[0].data["image/png"]
    assert LOST in found.cells[3].source
    assert found.cells[4].outputs[0].ename == "ZeroDivisionError"


@pytest.mark.spec("KERN-7")
async def test_an_export_replaces_no_file_and_stays_in_the_workspace(agent: Agent) -> None:
    await agent.cell("1")
    (agent.workspace / "mine.ipynb").write_text("mine")
    for path, said in (("mine.ipynb", "exists already"), ("../out.ipynb", "leads out"), ("x.txt", "must end in")):
        result = await agent.kernels("export", path=path)
        assert said in result.text
        assert not result.success
    assert (agent.workspace / "mine.ipynb").read_text() == "mine"
    paths = {(await agent.kernels("export")).output["path"] for _ in range(2)}
    assert len(paths) == 2


@pytest.mark.spec("KERN-4")
async def test_a_picture_becomes_a_file_that_the_message_names(agent: Agent) -> None:
    kernel = agent.turn.agent  # a unique name: all tests of this module share the folder
    result = await agent.cell(PICTURE, kernel=kernel)
    assert result.text == f"[image/png, 1 x 1, {len(PNG)} bytes: outputs/{kernel}-1-1.png]"
    assert (agent.workspace / f"outputs/{kernel}-1-1.png").read_bytes() == PNG
    assert f"created:outputs/{kernel}-1-1.png" in result.side_effects
    failed = await agent.cell(PICTURE + "\n1 / 0", kernel=kernel)
    assert f"outputs/{kernel}-2-1.png" in failed.text


@pytest.mark.spec("CALL-8", "KERN-4")
async def test_a_long_output_is_shortened_and_kept_in_a_file(agent: Agent) -> None:
    result = await agent.cell("print('x' * 3_000_000)")
    assert len(result.text) <= 16 << 10
    path = result.text.partition("is in ")[2].partition(" …]")[0]
    assert (agent.workspace / path).read_text().count("x") == 3_000_000
