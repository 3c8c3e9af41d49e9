"""What calls of real tools change in the workspace is recorded and can be undone."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from engine.app.engine import Engine
from engine.app.settings import Settings
from engine.app.undo import open_workspace_undo
from engine.contract.context import CallContext
from engine.contract.result import ToolResult
from engine.contract.turn import Turn
from engine.dispatch.watched_calls import NOT_RECORDED, may_change_files, runs_programs
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from engine.stores.clock import SystemClock
from engine.stores.undo.undo_plan import UndoStep
from engine.stores.undo.undoing import Undoable, UndoTarget, WorkspacePlan
from tests.eventually import eventually
from tests.stores.undo.undo_fixture import snapshot

pytestmark = [pytest.mark.spec("CODE-9"), pytest.mark.slow]
REPOSITORY = Path(__file__).resolve().parents[2]
CHANGES = """
import os, shutil
open("added.txt", "w").write("added")
open("changed.txt", "a").write(" and more")
os.remove("deleted.txt")
shutil.rmtree("folder")
os.chmod("script.sh", 0o700)
os.symlink("added.txt", "link")
"""


@tool(category="general", side_effects=("filesystem_write",))
async def write_slowly(ctx: CallContext) -> str:
    """Write a file and never end."""
    ctx.workspace.write("slow.txt", b"slow")
    ctx.progress("written")
    await asyncio.Event().wait()
    return ""


@tool(category="search")
async def look(ctx: CallContext) -> str:
    """Change a file, although the tool declares that it only reads."""
    ctx.workspace.write("looked.txt", b"x")
    return ""


@asynccontextmanager
async def opened(home: Path, **settings: Any) -> AsyncIterator[Engine]:
    chosen = Settings.model_validate({"kernels": {"warm": 0}, **settings})
    source = StaticSource("mine", [write_slowly, look])
    async with Engine.open(home, settings=chosen, environ={}, sources=[source]) as engine:
        yield engine


def prepare(workspace: Path) -> None:
    (workspace / "folder").mkdir(parents=True)
    for name in ("changed.txt", "deleted.txt", "script.sh", "folder/inner.txt"):
        (workspace / name).write_text(f"{name} as it was")


def uses(folder: Path) -> bool:
    """Return whether the working directory of a process is this folder, as in a box that sees it."""
    wanted = folder.stat()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.path.samestat((process / "cwd").stat(), wanted):
                return True
    return False


async def run(engine: Engine, code: str, run: str = "", *, call_id: str = "", **more: Any) -> ToolResult:
    arguments = {"language": "python", "code": code, **more}
    return await engine.call("execute", arguments, Turn(run=run), call_id=call_id)


async def undo(engine: Engine, target: str, **options: bool) -> list[WorkspacePlan]:
    """Undo as `knackbox undo` does in another process."""

    def work() -> list[WorkspacePlan]:
        with open_workspace_undo(engine.services.home, engine.settings, SystemClock()) as undoing:
            wanted = UndoTarget(target, **options)
            return undoing.undo(wanted, undoing.plan(wanted))

    return await asyncio.to_thread(work)


def listed(engine: Engine) -> list[Undoable]:
    with open_workspace_undo(engine.services.home, engine.settings, SystemClock()) as undoing:
        return undoing.undoable(100)


@pytest.mark.parametrize("stateful", [False, True])
async def test_what_a_program_changed_is_undone(tmp_path: Path, stateful: bool) -> None:
    workspace = tmp_path / "workspace"
    prepare(workspace)
    before = snapshot(workspace)
    async with opened(tmp_path) as engine:
        result = await run(engine, CHANGES, "run1", stateful=stateful)
        assert result.success, result
        after = snapshot(workspace)
        assert after != before
        (done,) = await undo(engine, "run1")
        assert snapshot(workspace) == before
        await undo(engine, done.undo_id)
        assert snapshot(workspace) == after
        assert [each.by for each in listed(engine)] == [f"undo of {done.undo_id}", "undo of run1", "execute"]


async def test_a_program_that_fails_or_is_killed_is_undone_too(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    prepare(workspace)
    before = snapshot(workspace)
    async with opened(tmp_path) as engine:
        failed = await run(engine, f"{CHANGES}\nraise SystemExit(3)", "run1")
        killed = await run(
            engine, "open('more.txt', 'w').write('x')\nimport os\nwhile True: os.getpid()", "run1", timeout_s=1
        )
        assert not failed.success
        assert not killed.success
        assert {"added.txt", "more.txt"} <= snapshot(workspace).keys()
        await undo(engine, "run1")
        assert snapshot(workspace) == before


async def test_a_cancelled_call_is_undone_too(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        written = asyncio.Event()
        calling = asyncio.create_task(
            engine.call("write_slowly", {}, call_id="slow", progress=lambda *_: written.set())
        )
        async with asyncio.timeout(20):
            await written.wait()
            assert engine.cancel("slow")
            assert (await calling).audit.end == "killed"
        assert (tmp_path / "workspace" / "slow.txt").exists()
        await undo(engine, "slow")
        assert snapshot(tmp_path / "workspace") == {}


async def test_a_call_whose_caller_left_is_recorded_before_the_engine_closes(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        written = asyncio.Event()
        calling = asyncio.create_task(
            engine.call("write_slowly", {}, call_id="slow", progress=lambda *_: written.set())
        )
        async with asyncio.timeout(20):
            await written.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
    async with opened(tmp_path) as engine:
        (plan,) = await undo(engine, "slow")
        assert [(each.path, each.restores, each.reason) for each in plan.paths] == [("slow.txt", True, "")]


async def test_300_deletions_of_a_program_are_undone(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    for number in range(300):
        (workspace / f"{number}.txt").write_text(f"{number}")
    before = snapshot(workspace)
    async with opened(tmp_path) as engine:
        assert (await run(engine, "import os\nfor name in os.listdir(): os.remove(name)", call_id="c")).success
        assert snapshot(workspace) == {}
        await undo(engine, "c")
        assert snapshot(workspace) == before


async def test_a_person_who_works_during_a_file_system_call_or_between_calls_loses_nothing(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    prepare(workspace)
    async with opened(tmp_path) as engine:
        turn = Turn(run="run1")
        write = {"action": "write", "path": "notes/agent.txt", "content": "agent"}
        assert (await engine.call("file_system", write, turn)).success
        (workspace / "notes" / "person.txt").write_text("person")
        assert (await run(engine, "open('changed.txt', 'w').write('agent')", "run1")).success
        (workspace / "deleted.txt").write_text("person")
        delete = {"action": "delete", "path": "folder", "recursive": True}
        assert (await engine.call("file_system", delete, turn)).success
        await undo(engine, "run1")
    assert {path: content[2].decode() for path, content in snapshot(workspace).items() if content[0] == "file"} == {
        "changed.txt": "changed.txt as it was",
        "deleted.txt": "person",
        "folder/inner.txt": "folder/inner.txt as it was",
        "notes/person.txt": "person",
        "script.sh": "script.sh as it was",
    }


async def test_calls_of_two_runs_at_the_same_time_are_told_apart_as_far_as_possible(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        slow = "import time\nopen('one.txt', 'w').write('1')\ntime.sleep(1)"
        both = await asyncio.gather(run(engine, slow, "run1"), run(engine, slow.replace("one", "two"), "run2"))
        assert all(each.success for each in both)
        (plan,) = await undo(engine, "run1")
        assert not any(each.restores for each in plan.paths if each.path == "two.txt")
        await undo(engine, "run1", unsure=True)
        assert not (tmp_path / "workspace" / "one.txt").exists()


async def test_a_program_cannot_reach_the_store(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    prepare(workspace)
    async with opened(tmp_path) as engine:
        assert (await run(engine, "open('deleted.txt', 'w').write('')", "run1")).success
        store = engine.services.home.undo
        assert (store / "undo.db").exists()
        code = f"""
            import os
            reached = []
            for path in ({str(store)!r}, {str(store / "undo.db")!r}, "/work/../undo", "../undo", "/proc/1/root{store}"):
                try:
                    reached.append(os.listdir(path) if os.path.isdir(path) else open(path).read())
                except OSError:
                    pass
            os.symlink({str(store)!r}, "store")
            try:
                reached.append(os.listdir("store"))
            except OSError:
                pass
            reached
        """
        reached = await run(engine, "\n".join(line[12:] for line in code.splitlines()))
        assert reached.success, reached
        assert reached.output["value"] == []
        through_link = await engine.call("file_system", {"action": "read", "path": "store/undo.db"})
        assert not through_link.success


async def test_trials_and_tools_that_only_read_are_not_recorded(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        assert (await engine.call("look", {})).success
        await engine.call("execute", {"language": "python", "code": "1"}, Turn(trial=True))
        assert not engine.services.home.undo.exists()


async def test_it_can_be_disabled(tmp_path: Path) -> None:
    async with opened(tmp_path, undo={"enabled": False}) as engine:
        assert (await run(engine, "open('x', 'w')")).success
        assert not engine.services.home.undo.exists()


async def test_a_workspace_with_too_many_files_is_reported_and_the_call_runs(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    prepare(workspace)
    async with opened(tmp_path, undo={"files": 2}) as engine:
        result = await run(engine, "open('x', 'w')")
        assert result.success
        assert "more than 2 files" in result.audit.data[NOT_RECORDED]


async def test_a_store_that_cannot_be_opened_stops_no_call(tmp_path: Path) -> None:
    (tmp_path / "undo").write_text("a file, not a folder")
    async with opened(tmp_path) as engine:
        result = await run(engine, "1 + 1")
        assert result.output["value"] == 2
        assert result.audit.data[NOT_RECORDED]


async def test_which_tools_are_watched(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        specs = engine.registry.static_specs()
        watched = {name for name, spec in specs.items() if may_change_files(spec)}
        assert {"execute", "file_system", "kernels", "deep_research", "delegate_to_swarm"} <= watched
        assert watched.isdisjoint({"scratchpad", "recall", "web_search", "search_tools", "create_skill", "look"})
        assert {name for name, spec in specs.items() if name in watched and runs_programs(spec)} == {"execute"}


@pytest.mark.parametrize("what", ["box", "kernel"])
async def test_what_a_program_changed_until_its_engine_was_killed_is_undone(tmp_path: Path, what: str) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    for number in range(30):
        (workspace / f"{number}.txt").write_text(f"before {number}")
    before = snapshot(workspace)
    victim = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.app.undo_victim", str(tmp_path), what),
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert victim.stdout is not None
        async with asyncio.timeout(90):
            while b"changing" not in await victim.stdout.readline():
                assert not victim.stdout.at_eof()
    finally:
        victim.kill()
        await victim.wait()
    await eventually(lambda: not uses(workspace))  # the box ends with its engine, but not at the same instant
    assert snapshot(workspace) != before
    async with opened(tmp_path) as engine:
        (plan,) = await undo(engine, "run1")
        assert {each.step for each in plan.paths} == {UndoStep.UNSURE}
        assert "killed" in plan.paths[0].reason
        await undo(engine, "run1", unsure=True)
        assert snapshot(workspace) == before
