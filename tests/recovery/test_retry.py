"""Retries: which calls are retried, how often, after which wait, and within the deadline."""

import random
from datetime import timedelta

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.failure import Failure, FailureClass, ToolFailure
from engine.contract.spec import Annotations
from engine.recovery.retry import LONGEST_WAIT_S, Retrier, without_unsafe_retry
from engine.registry.decorate import tool
from sandbox.contract import SandboxError
from tests.dispatch.pipeline_fixture import ManualClock, open_pipeline

READ_ONLY = Annotations(read_only=True)


def failing(errors, **options):
    """Return a tool that raises these errors one after the other, and then succeeds."""
    left = list(errors)
    runs: list[int] = []

    @tool(name="flaky", **options)
    async def flaky() -> str:
        """Fail, then succeed."""
        runs.append(1)
        if left:
            raise left.pop(0)
        return "done"

    return flaky, runs


def too_many(value):
    request = httpx.Request("GET", "http://x.test")
    response = httpx.Response(429, request=request, headers={"Retry-After": value})
    return httpx.HTTPStatusError("slow down", request=request, response=response)


@pytest.mark.spec("FAIL-2")
@pytest.mark.parametrize(
    "options",
    [{"annotations": READ_ONLY}, {"annotations": Annotations(idempotent=True)}, {"idempotency_key_fields": ("a",)}],
)
async def test_transient_failures_of_replay_safe_tools_are_retried_up_to_three_attempts(tmp_path, options):
    clock = ManualClock()
    flaky, runs = failing([ConnectionResetError("1"), TimeoutError("2")], **options)
    async with open_pipeline(tmp_path, [flaky], clock=clock) as h:
        result = await h.call("flaky")
    assert (result.output, result.audit.attempts, len(runs)) == ("done", 3, 3)
    assert 0.125 <= clock.slept[0] <= 0.25
    assert 0.25 <= clock.slept[1] <= 0.5


@pytest.mark.spec("FAIL-2")
async def test_after_the_third_attempt_the_failure_reports_the_number_of_attempts(tmp_path):
    flaky, runs = failing([ConnectionResetError(str(n)) for n in range(9)], annotations=READ_ONLY)
    async with open_pipeline(tmp_path, [flaky], clock=ManualClock()) as h:
        result = await h.call("flaky")
    assert len(runs) == 3
    assert result.failure.failure_class is FailureClass.RETRYABLE
    assert "failed 3 times. Last error: ConnectionResetError: 2" in result.error


@pytest.mark.spec("FAIL-2")
async def test_a_call_that_may_have_taken_effect_is_not_retried_and_the_model_is_advised_to_check(tmp_path):
    flaky, runs = failing([ConnectionResetError("cut")], annotations=Annotations(destructive=True))
    async with open_pipeline(tmp_path, [flaky], clock=ManualClock()) as h:
        result = await h.call("flaky")
    assert len(runs) == 1
    assert result.failure.failure_class is FailureClass.DIAGNOSTIC
    assert result.failure.may_have_started
    assert not result.failure.replay_safe
    assert "The call may have taken effect. Check first" in result.error


@pytest.mark.spec("FAIL-2")
@pytest.mark.parametrize(
    "error",
    [
        SandboxError("no box was free"),
        ToolFailure("not sent", failure_class=FailureClass.RETRYABLE, may_have_started=False),
    ],
)
async def test_a_call_that_never_started_is_retried_even_for_a_destructive_tool(tmp_path, error):
    flaky, runs = failing([error], annotations=Annotations(destructive=True))
    async with open_pipeline(tmp_path, [flaky], clock=ManualClock()) as h:
        assert (await h.call("flaky")).output == "done"
    assert len(runs) == 2


@pytest.mark.spec("FAIL-2")
async def test_a_later_attempt_that_may_have_started_ends_the_retries(tmp_path):
    errors = [SandboxError("no box"), SandboxError("lost it", may_have_started=True)]
    flaky, runs = failing(errors, annotations=Annotations(destructive=True))
    async with open_pipeline(tmp_path, [flaky], clock=ManualClock()) as h:
        result = await h.call("flaky")
    assert len(runs) == 2
    assert result.failure.failure_class is FailureClass.DIAGNOSTIC
    assert "Check first" in result.error


@pytest.mark.spec("FAIL-2")
@pytest.mark.parametrize(
    ("errors", "expected"), [([ValueError("x")], 1), ([PermissionError("x")], 1), ([KeyError("x")], 1)], ids=str
)
async def test_only_transient_failures_are_retried(tmp_path, errors, expected):
    flaky, runs = failing(errors, annotations=READ_ONLY)
    async with open_pipeline(tmp_path, [flaky], clock=ManualClock()) as h:
        assert not (await h.call("flaky")).success
    assert len(runs) == expected


@pytest.mark.spec("FAIL-2")
async def test_retry_after_is_the_minimum_wait_in_seconds_or_as_a_date(tmp_path):
    clock = ManualClock()
    date = (clock.start + timedelta(seconds=9)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    flaky, _ = failing([too_many("4"), too_many(date)], annotations=READ_ONLY)
    async with open_pipeline(tmp_path, [flaky], clock=clock) as h:
        assert (await h.call("flaky")).success
    assert 4 <= clock.slept[0] < 4.2
    assert 9 <= sum(clock.slept) < 9.5  # the date is counted from when the answer came


@pytest.mark.spec("FAIL-2")
async def test_a_wait_beyond_the_deadline_is_not_started_and_is_reported_to_the_model(tmp_path):
    clock = ManualClock()
    flaky, runs = failing([too_many("120")], annotations=READ_ONLY, timeout_s=30)
    async with open_pipeline(tmp_path, [flaky], clock=clock) as h:
        result = await h.call("flaky")
    assert (clock.slept, len(runs)) == ([], 1)
    assert result.failure.retry_after == 120
    assert "Wait 120 s" in result.error


@pytest.mark.spec("FAIL-2")
async def test_sync_tools_are_retried_in_the_same_way(tmp_path):
    left = [ConnectionResetError("1")]

    @tool(annotations=READ_ONLY)
    def flaky() -> str:
        """Fail, then succeed."""
        if left:
            raise left.pop()
        return "done"

    async with open_pipeline(tmp_path, [flaky], clock=ManualClock()) as h:
        assert (await h.call("flaky")).audit.attempts == 2


@given(st.integers(1, 30), st.none() | st.floats(0, 1000), st.integers())
def test_waits_grow_are_bounded_and_never_shorter_than_requested(attempt, asked, seed):
    wait = Retrier(rng=random.Random(seed))._wait(attempt, asked)
    assert (asked or 0) <= wait <= (asked or 0) + LONGEST_WAIT_S


def test_only_unsafe_retryable_failures_become_diagnostic():
    unsafe = Failure(FailureClass.RETRYABLE, "timeout")
    assert without_unsafe_retry(unsafe).failure_class is FailureClass.DIAGNOSTIC
    for kept in (Failure(FailureClass.RETRYABLE, "x", replay_safe=True), Failure(FailureClass.FATAL, "x")):
        assert without_unsafe_retry(kept) is kept
