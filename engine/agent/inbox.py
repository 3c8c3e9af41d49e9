"""Delivers the messages in the inbox of a run to the model, at the beginning of a turn."""

import asyncio

from engine.agent.active_run import ActiveRun, close_open_calls
from engine.agent.budget import Finish
from engine.agent.events import MessageReceived, OnEvent, ignore_event
from engine.agent.journal.run_entries import MessageDelivered, RunEnded, RunResumed
from engine.stores.run_inbox import PERSON


async def deliver_messages(run: ActiveRun, on_event: OnEvent) -> None:
    """Record the messages that have been sent to a run since the last delivery, up to one that stops the run.

    Call it when each call has a result, because providers reject a message between a call and its result. It reads the
    inbox only if the last entries were appended after a message had been sent. A later message is delivered a turn
    later, or when the run is about to end.

    Raises:
        LeaseLost, ConfigError: As for `RunRecorder.record`.
    """
    state, recorder = run.state, run.recorder
    if run.journal is None or recorder.newest_message <= state.read_upto or state.stopped is not None:
        return
    for sent in await asyncio.to_thread(run.journal.messages, run.id, state.read_upto):
        recorder.note(MessageDelivered(sent.number, sent.text, sent.sender, stop=sent.stop))
        on_event(MessageReceived(sent.sender, sent.text, stop=sent.stop))
        if sent.stop:
            break
    await recorder.record()


async def end_stopped_run(run: ActiveRun) -> None:
    """End a run that waits or was interrupted, if a message stops it, and release it. Its open calls are not made."""
    close_open_calls(run)
    await run.recorder.record(RunResumed())
    await deliver_messages(run, ignore_event)
    if run.state.stopped is not None:
        await run.recorder.record(RunEnded(Finish.CANCELLED, why_stopped(run.state.stopped)))
    await run.recorder.release()


def why_stopped(message: MessageDelivered) -> str:
    """Return the line that says who stopped a run, and why."""
    who = "by a person" if message.sender == PERSON else f"by {message.sender}"
    return f"Stopped {who}: {message.text}" if message.text.strip() else f"Stopped {who}."
