"""Values of private arguments are in no log, however the call ends."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from engine.contract.failure import Failure, FailureClass
from engine.contract.result import ToolCall, ToolResult
from engine.contract.spec import Annotations, ToolSpec
from engine.contract.turn import Turn
from engine.dispatch.audit import AuditTrail
from engine.dispatch.private_arguments import recordable
from engine.registry.decorate import tool
from engine.stores.call_journal import CallJournal
from engine.stores.clock import SystemClock
from engine.stores.event_log import EventLog
from engine.stores.records import Records
from tests.dispatch.pipeline_fixture import open_pipeline

SECRET = "The door code of the summer house is 4711."


@tool(private_arguments=("text",), annotations=Annotations(destructive=True))
async def remember(text: str, space: str = "home", fail: bool = False) -> str:
    """Remember a text."""
    if fail:
        raise ValueError(f"cannot remember {text!r}")
    return f"remembered: {text}"


@pytest.mark.spec("CALL-15")
async def test_a_private_argument_is_recorded_by_its_length_alone(tmp_path: Path) -> None:
    records = Records.open(f"sqlite:///{tmp_path}/records.db")
    journal, events = CallJournal(records), EventLog(records, SystemClock())
    events.subscribe("test")
    trail = AuditTrail(journal, events)
    async with open_pipeline(tmp_path, [remember], guards=(trail,), recorder=trail) as h:
        done = await h.pipeline.call(ToolCall("remember", {"text": SECRET}, "done"), Turn())
        failed = await h.pipeline.call(ToolCall("remember", {"text": SECRET, "fail": True}, "failed"), Turn())
        wrong = await h.pipeline.call(ToolCall("remember", {"text": [SECRET]}, "wrong"), Turn())
        await trail.flush()
    assert SECRET in (done.message or "")
    assert SECRET in failed.error
    assert "4711" in wrong.error
    rows = {row["call_id"]: row for row in journal.audit.recent()}
    assert f"(private, {len(SECRET)} characters)" in rows["done"]["arguments"]
    assert "quotes a private argument" in journal.failures.recent()[0]["error_text"]
    assert events.fetch("test")
    records.truncate_log()
    records.close()
    held = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"4711" not in held
    assert b"call_log" in held


@pytest.mark.spec("CALL-15")
@given(some.text(min_size=1, max_size=60), some.text(max_size=80), some.text(max_size=80))
def test_no_error_quotes_a_private_argument(value: str, before: str, after: str) -> None:
    spec = ToolSpec("remember", "Remember.", private_arguments=("text",))
    failure = Failure(FailureClass.DIAGNOSTIC, "odd")
    result = ToolResult(success=False, output=value, message=value, error=before + value + after, failure=failure)
    call, shown = recordable(ToolCall("remember", {"text": {"a": [value]}, "space": "x"}), result, spec)
    assert call.arguments["space"] == "x"
    assert "private" in call.arguments["text"]
    assert shown.output is None
    assert shown.message is None
    assert shown.error == "remember failed (odd). The message quotes a private argument."
