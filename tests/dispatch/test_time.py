"""Deadlines, cancellation, threads and the watchdog."""

import asyncio
import gc
import logging
import signal
import sys
import threading
import time

import pytest

from engine.contract.context import CallContext
from engine.contract.failure import FailureClass, ToolFailure
from engine.contract.result import ToolCall
from engine.contract.spec import Annotations
from engine.dispatch.threads import WorkerThreads
from engine.registry.decorate import tool
from tests.dispatch.pipeline_fixture import TURN, ManualClock, open_pipeline
from tests.eventually import eventually

PATIENCE_S = 60.0


def waiting_tool(**options):
    """Return a tool that waits forever, and records that it began and how it was stopped."""
    log: list[str] = []

    @tool(name="wait", **options)
    async def wait() -> None:
        """Wait."""
        log.append("began")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    return wait, log


@pytest.mark.spec("CALL-6")
@pytest.mark.parametrize("read_only", [False, True])
async def test_a_tool_past_its_deadline_is_cancelled_and_reported(tmp_path, read_only):
    wait, log = waiting_tool(timeout_s=0.05, annotations=Annotations(read_only=read_only))
    async with open_pipeline(tmp_path, [wait]) as h:
        result = await h.call("wait")
    assert log == ["began", "cancelled"]
    assert (result.audit.end, result.failure.reason) == ("timeout", "timeout")
    assert "did not finish within 0.05 s" in result.error
    expected = FailureClass.RETRYABLE if read_only else FailureClass.DIAGNOSTIC
    assert result.failure.failure_class is expected
    assert ("The call may have taken effect. Check first" in result.error) is not read_only


@pytest.mark.spec("CALL-6")
async def test_the_deadline_spans_all_attempts(tmp_path):
    clock = ManualClock()
    attempts = []

    @tool(timeout_s=10, annotations=Annotations(read_only=True))
    async def flaky() -> None:
        """Fail, slowly."""
        attempts.append(clock.seconds)
        clock.seconds += 6
        raise ConnectionResetError("gone")

    async with open_pipeline(tmp_path, [flaky], clock=clock) as h:
        result = await h.call("flaky")
    assert len(attempts) == 2  # after the second, 12 s of 10 are gone
    assert result.audit.attempts == 2
    assert result.failure.failure_class is FailureClass.RETRYABLE


@pytest.mark.spec("CALL-6")
async def test_short_and_long_deadlines_do_not_disturb_each_other(tmp_path):
    short, _ = waiting_tool(timeout_s=0.05)
    gate = asyncio.Event()

    @tool(timeout_s=30)
    async def long() -> str:
        """Take its time."""
        await gate.wait()
        return "done"

    async with open_pipeline(tmp_path, [short, long]) as h:
        pending = asyncio.create_task(h.call("long"))
        results = await asyncio.gather(*(h.call("wait") for _ in range(20)))
        assert {each.audit.end for each in results} == {"timeout"}
        assert (await h.call("wait")).audit.end == "timeout"
        gate.set()
        assert (await pending).output == "done"


async def test_the_tools_own_timeout_is_not_the_calls_deadline(tmp_path):
    @tool(timeout_s=30)
    async def inner() -> None:
        """Have a timeout inside."""
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()

    async with open_pipeline(tmp_path, [inner]) as h:
        result = await h.call("inner")
    assert result.audit.end == "error"
    assert result.failure.reason == "timeout"


@pytest.mark.spec("CALL-6")
async def test_a_blocking_sync_tool_does_not_stop_a_second_call(tmp_path):
    gate, inside = threading.Event(), threading.Event()

    @tool()
    def block() -> str:
        """Block."""
        inside.set()
        assert gate.wait(PATIENCE_S)
        return threading.current_thread().name

    @tool()
    async def quick() -> str:
        """Be quick."""
        return "quick"

    @tool()
    def quick_sync() -> str:
        """Be quick."""
        return "quick"

    async with open_pipeline(tmp_path, [block, quick, quick_sync]) as h:
        pending = asyncio.create_task(h.call("block"))
        await eventually(inside.is_set)
        assert (await h.call("quick")).output == "quick"
        assert (await h.call("quick_sync")).output == "quick"
        assert not pending.done()
        gate.set()
        assert (await pending).output.startswith("knackbox-tool")


@pytest.mark.spec("CALL-6")
async def test_stuck_sync_tools_are_abandoned_at_their_deadline_and_do_not_starve_others(tmp_path):
    gate = threading.Event()

    @tool(timeout_s=0.05)
    def stick() -> None:
        """Stick."""
        gate.wait(PATIENCE_S)

    @tool()
    def quick() -> int:
        """Be quick."""
        return 1

    async with open_pipeline(tmp_path, [stick, quick]) as h:
        h.pipeline._tool_threads._places = asyncio.Semaphore(2)
        results = await asyncio.gather(*(h.call("stick") for _ in range(2)))
        assert [each.audit.end for each in results] == ["timeout", "timeout"]
        assert h.pipeline._tool_threads.stuck == 2
        assert (await h.call("quick")).output == 1
        gate.set()
        await eventually(lambda: h.pipeline._tool_threads.stuck == 0)


@pytest.mark.spec("CALL-6")
async def test_a_call_that_never_got_a_thread_counts_as_not_started(tmp_path):
    gate, inside, ran = threading.Event(), threading.Event(), []

    @tool()
    def block() -> None:
        """Block."""
        inside.set()
        gate.wait(PATIENCE_S)

    @tool(timeout_s=0.05)
    def late() -> None:
        """Never get a thread."""
        ran.append(1)

    async with open_pipeline(tmp_path, [block, late]) as h:
        h.pipeline._tool_threads._places = asyncio.Semaphore(1)
        pending = asyncio.create_task(h.call("block"))
        await eventually(inside.is_set)
        result = await h.call("late")
        assert result.audit.end == "timeout"
        assert not result.failure.may_have_started
        assert result.failure.failure_class is FailureClass.RETRYABLE
        gate.set()
        assert (await pending).success
    assert ran == []


async def test_calls_are_refused_when_too_many_threads_are_stuck():
    gate = threading.Event()
    threads = WorkerThreads("test", limit=4, stuck_limit=2)
    try:
        for _ in range(2):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await threads.run(lambda: gate.wait(PATIENCE_S))
        with pytest.raises(ToolFailure, match="2 worker threads are stuck") as caught:
            await threads.run(int)
        assert not caught.value.may_have_started
        gate.set()
        await eventually(lambda: threads.stuck == 0)
        assert await threads.run(lambda: 5) == 5
    finally:
        gate.set()
        threads.close()


@pytest.mark.spec("CALL-1")
async def test_cancelling_a_call_by_id_gives_its_caller_a_killed_result(tmp_path):
    wait, log = waiting_tool()
    async with open_pipeline(tmp_path, [wait]) as h:
        pending = asyncio.create_task(h.pipeline.call(ToolCall("wait", {}, "c1"), TURN))
        await eventually(lambda: log)
        assert h.pipeline.cancel("c1")
        assert not h.pipeline.cancel("c1")
        result = await pending
        assert not h.pipeline.cancel("c1")
        assert log == ["began", "cancelled"]
        assert (result.success, result.audit.end, result.failure.reason) == (False, "killed", "cancelled")
        assert "may have had some effect" in result.error
        assert pending.cancelling() == 0
        assert len(h.seen) == 1


@pytest.mark.spec("CALL-1")
async def test_when_the_waiting_task_is_cancelled_the_tool_is_stopped_and_the_call_recorded(tmp_path):
    wait, log = waiting_tool()
    async with open_pipeline(tmp_path, [wait]) as h:
        pending = asyncio.create_task(h.call("wait"))
        await eventually(lambda: log)
        pending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pending
        assert log == ["began", "cancelled"]
        assert [each.audit.end for _, each in h.seen] == ["killed"]
        assert len(h.pipeline._in_flight) == 0


@pytest.mark.spec("CALL-1")
async def test_if_a_call_is_cancelled_by_id_and_by_its_task_the_task_takes_precedence(tmp_path):
    wait, log = waiting_tool()
    async with open_pipeline(tmp_path, [wait]) as h:
        pending = asyncio.create_task(h.pipeline.call(ToolCall("wait", {}, "c1"), TURN))
        await eventually(lambda: log)
        h.pipeline.cancel("c1")
        pending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pending
        assert [each.audit.end for _, each in h.seen] == ["killed"]


@pytest.mark.spec("CALL-1")
async def test_every_call_of_a_cancelled_batch_has_a_result(tmp_path):
    wait, log = waiting_tool()
    async with open_pipeline(tmp_path, [wait]) as h:
        batch = asyncio.gather(*(h.call("wait") for _ in range(5)))
        await eventually(lambda: len(log) == 5)
        assert h.pipeline.cancel_all() == 5
        assert [each.audit.end for each in await batch] == ["killed"] * 5


async def test_a_tool_that_ignores_its_cancellation_and_finishes_keeps_its_result(tmp_path):
    began = asyncio.Event()

    @tool()
    async def stubborn() -> str:
        """Finish anyway."""
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "finished"

    async def caller(h):
        result = await h.pipeline.call(ToolCall("stubborn", {}, "c1"), TURN)
        await asyncio.sleep(0)  # a cancellation left over would end this
        return result, asyncio.current_task().cancelling()

    async with open_pipeline(tmp_path, [stubborn]) as h:
        pending = asyncio.create_task(caller(h))
        await began.wait()
        h.pipeline.cancel("c1")
        result, cancelling = await pending
        assert (result.output, cancelling) == ("finished", 0)


async def test_a_tool_that_raises_an_error_on_cancellation_is_not_retried(tmp_path):
    began = []

    @tool(annotations=Annotations(read_only=True))
    async def sour() -> None:
        """Turn sour."""
        began.append(1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionResetError("torn down") from None

    async with open_pipeline(tmp_path, [sour]) as h:
        pending = asyncio.create_task(h.pipeline.call(ToolCall("sour", {}, "c1"), TURN))
        await eventually(lambda: began)
        h.pipeline.cancel("c1")
        assert (await pending).audit.end == "killed"
    assert began == [1]


async def test_a_tool_cannot_cancel_its_own_call(tmp_path):
    async with open_pipeline(tmp_path, []) as h:

        @tool()
        async def cancel_me(ctx: CallContext) -> bool:
            """Try."""
            return h.pipeline.cancel(ctx.call_id)

        h.registry.static["cancel_me"] = cancel_me
        assert (await h.call("cancel_me")).output is False


async def test_a_timeout_around_the_call_works_as_usual(tmp_path):
    wait, log = waiting_tool(timeout_s=30)
    async with open_pipeline(tmp_path, [wait]) as h:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await h.call("wait")
        assert log[-1] == "cancelled"


async def test_closing_the_pipeline_cancels_calls_in_flight_and_their_callers_get_results(tmp_path):
    wait, log = waiting_tool()
    async with open_pipeline(tmp_path, [wait]) as h:
        pending = asyncio.create_task(h.call("wait"))
        await eventually(lambda: log)
    assert (await pending).audit.end == "killed"


@pytest.mark.spec("CALL-6")
async def test_a_tool_that_stalls_the_event_loop_is_named_in_the_log(tmp_path, caplog):
    stalled = threading.Event()

    @tool()
    async def hog() -> None:
        """Block the loop."""
        end = time.monotonic() + PATIENCE_S
        while not stalled.is_set() and time.monotonic() < end:
            time.sleep(0.005)

    class Tell(logging.Handler):
        def emit(self, record):
            stalled.set()

    teller = Tell()
    logging.getLogger("knackbox.dispatch").addHandler(teller)
    try:
        async with open_pipeline(tmp_path, [hog], stall_s=0.05) as h:
            assert (await h.call("hog")).success
            assert h.pipeline._watchdog.reported == 1
    finally:
        logging.getLogger("knackbox.dispatch").removeHandler(teller)
    (record,) = [each for each in caplog.records if each.name == "knackbox.dispatch"]
    assert "Tool 'hog' has blocked the event loop" in record.getMessage()
    assert "test_time.py" in record.getMessage()


async def test_the_watchdog_sleeps_while_no_call_is_in_flight(tmp_path):
    @tool()
    async def nothing() -> None:
        """Nothing."""

    async with open_pipeline(tmp_path, [nothing], stall_s=0.02) as h:
        for _ in range(3):
            await h.call("nothing")
            assert h.pipeline._watchdog.awake
            await eventually(lambda: not h.pipeline._watchdog.awake)
        assert h.pipeline._watchdog.reported == 0


async def test_progress_of_a_sync_tool_is_reported_in_the_event_loop(tmp_path):
    told = []

    @tool()
    def work(ctx: CallContext) -> None:
        """Work."""
        ctx.progress("half", 0.5)

    async with open_pipeline(tmp_path, [work]) as h:
        main = threading.get_ident()
        await h.pipeline.call(
            ToolCall("work", {}), TURN, progress=lambda *told_: told.append((*told_, threading.get_ident() == main))
        )
    assert told == [("half", 0.5, True)]


async def test_finished_calls_leave_nothing_behind(tmp_path):
    @tool()
    async def nothing() -> None:
        """Nothing."""

    async with open_pipeline(tmp_path, [nothing]) as h:
        for _ in range(50):
            await h.call("nothing")
        gc.collect()
        assert len(h.pipeline._in_flight) == 0
        assert len([each for each in asyncio.get_running_loop()._scheduled if not each.cancelled()]) <= 1


async def test_closing_the_watchdog_does_not_wait_for_a_heartbeat_of_its_own_loop(tmp_path):
    @tool()
    async def nothing() -> None:
        """Nothing."""

    async with open_pipeline(tmp_path, [nothing], stall_s=60.0) as h:
        assert (await h.call("nothing")).success
        watchdog = h.pipeline._watchdog
        waiting = threading.Thread(target=watchdog._beats, daemon=True)
        waiting.start()
        watchdog.close()
        waiting.join(10.0)  # the loop gives no sign meanwhile
        assert not waiting.is_alive()
        assert watchdog.reported == 0


@pytest.mark.spec("CALL-1")
async def test_a_tool_is_notified_only_if_its_result_was_not_delivered(tmp_path):
    log = []

    @tool(timeout_s=5)
    async def telling(ctx: CallContext, cancelled: bool) -> str:
        """Say something once."""
        ctx.on_undelivered.append(lambda: log.append("undelivered"))
        if cancelled:
            asyncio.get_running_loop().call_soon(asyncio.current_task().cancel)
        return "x" * 100_000  # too long for the model: it is written to a file when the tool is done already

    async with open_pipeline(tmp_path, [telling]) as h:
        assert (await h.call("telling", cancelled=False)).success
        assert log == []
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(h.call("telling", cancelled=True))
        assert log == ["undelivered"]


async def test_a_tool_is_notified_once_if_its_result_was_lost_while_it_was_recorded(tmp_path):
    log = []

    class CancellingRecorder:
        def observe(self, *_):
            pass

        async def record_now(self):
            asyncio.current_task().cancel()
            await asyncio.sleep(0)

    @tool(timeout_s=5)
    async def failing(ctx: CallContext) -> str:
        """Fail."""
        ctx.on_undelivered.append(lambda: log.append("undelivered"))
        raise ToolFailure("no")

    async with open_pipeline(tmp_path, [failing], recorder=CancellingRecorder()) as h:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(h.call("failing"))
    assert log == ["undelivered"]


_STOPPED = """
import asyncio, logging, sys
from pathlib import Path
from engine.registry.decorate import tool
from tests.dispatch.pipeline_fixture import open_pipeline

@tool()
async def wait() -> None:
    \"\"\"Wait.\"\"\"
    sys.stdout.write("waiting\\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)

async def main() -> None:
    async with open_pipeline(Path(sys.argv[1]), [wait], stall_s=0.2) as h:
        assert (await h.call("wait")).success
        print(h.pipeline._watchdog.reported, h.pipeline._watchdog.starved)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.spec("CALL-6")
async def test_a_process_without_cpu_time_does_not_report_a_tool(tmp_path):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _STOPPED, str(tmp_path), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            assert await process.stdout.readline() == b"waiting\n"
            for _ in range(3):
                process.send_signal(signal.SIGSTOP)
                await asyncio.sleep(0.6)  # what is tried: three times as long as a stall
                process.send_signal(signal.SIGCONT)
                await asyncio.sleep(0.1)
            process.stdin.write(b"\n")
            assert (await process.stdout.readline()).split()[0] == b"0"
    finally:
        process.kill()
        await process.wait()


@pytest.mark.spec("CALL-6")
async def test_a_tool_that_sleeps_in_the_event_loop_is_named_in_the_log(tmp_path, caplog):
    @tool()
    async def sleeper() -> None:
        """Block the loop without computing."""
        time.sleep(0.5)

    async with open_pipeline(tmp_path, [sleeper], stall_s=0.05) as h:
        assert (await h.call("sleeper")).success
        assert h.pipeline._watchdog.reported >= 1
    assert any("Tool 'sleeper' has blocked" in each.getMessage() for each in caplog.records)
