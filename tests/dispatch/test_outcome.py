"""A failed outcome of a box becomes a failure that tells the model what to correct."""

import pytest

from engine.contract.failure import FailureClass
from engine.dispatch.outcome import failure_of, raise_unless_ok
from engine.registry.decorate import tool
from sandbox.contract import CodeError, End, Outcome, Usage
from tests.dispatch.pipeline_fixture import open_pipeline

TRACEBACK = 'Traceback (most recent call last):\n  File "skill.py", line 2, in skill\n    1 / 0'
FAILED = Outcome(
    End.ERROR, exit_code=1, stderr=b"noise\nlast words\n", error=CodeError("ZeroDivisionError", "division", TRACEBACK)
)


@pytest.mark.spec("FAIL-4")
def test_the_failure_contains_traceback_exit_code_and_the_end_of_stderr():
    failure = failure_of(FAILED)
    text = str(failure)
    assert text.startswith("The code failed (exit code 1).\nTraceback")
    assert "line 2, in skill" in text
    assert "ZeroDivisionError: division" in text
    assert text.endswith("stderr:\nnoise\nlast words")
    assert failure.failure_class is FailureClass.DIAGNOSTIC
    assert (failure.reason, failure.end) == ("code_failed", "error")


@pytest.mark.spec("FAIL-4")
@pytest.mark.parametrize("end", [each for each in End if each is not End.OK])
def test_every_end_has_its_own_explanation_and_is_in_the_audit(end):
    failure = failure_of(Outcome(end, signal=9), "The skill")
    assert str(failure).startswith("The skill ")
    assert "(signal 9)" in str(failure)
    assert failure.end == end.value
    fatal = end is End.POLICY
    assert (failure.failure_class is FailureClass.FATAL) is fatal


@pytest.mark.spec("FAIL-4")
def test_each_part_of_the_text_is_limited_and_keeps_its_end():
    noise = b"".join(b"line %d\n" % n for n in range(100_000))
    error = CodeError("E" * 10_000, "m" * 100_000, "frame\n" * 50_000)
    text = str(failure_of(Outcome(End.ERROR, stderr=noise, stderr_dropped=7, error=error)))
    assert len(text) < 8000
    assert text.rstrip().endswith("line 99999")
    assert "bytes before this]" in text


@pytest.mark.spec("FAIL-4")
def test_a_traceback_repeated_on_stderr_is_shown_once_and_invalid_utf_8_is_accepted():
    traceback = f"{TRACEBACK}\nZeroDivisionError: division"
    outcome = Outcome(
        End.ERROR, exit_code=1, stderr=traceback.encode(), error=CodeError("ZeroDivisionError", "division", traceback)
    )
    assert str(failure_of(outcome)).count("line 2, in skill") == 1
    assert "stdout:\nwhat \ufffd" in str(failure_of(Outcome(End.ERROR, exit_code=3, stdout=b"what \xff")))
    assert "It printed nothing." in str(failure_of(Outcome(End.KILLED)))


def test_limits_that_were_hit_without_ending_the_run_are_mentioned():
    assert "Limits hit: memory." in str(failure_of(Outcome(End.ERROR, usage=Usage(limits_hit=("memory",)))))


def test_a_successful_outcome_is_returned_unchanged():
    outcome = Outcome(End.OK, value=3)
    assert raise_unless_ok(outcome) is outcome
    with pytest.raises(ValueError, match="is ok"):
        failure_of(outcome)


@pytest.mark.spec("FAIL-4")
@pytest.mark.parametrize("end", [End.MEMORY, End.TIMEOUT, End.ERROR])
async def test_a_tool_that_runs_code_is_not_retried_and_its_end_is_audited(tmp_path, end):
    runs = []

    @tool()
    async def run_code() -> None:
        """Run code."""
        runs.append(1)
        raise_unless_ok(Outcome(end, stderr=b"why"))

    async with open_pipeline(tmp_path, [run_code]) as h:
        result = await h.call("run_code")
    assert runs == [1]
    assert result.audit.end == end.value
    assert "stderr:\nwhy" in result.error
    assert result.failure.failure_class is FailureClass.DIAGNOSTIC
