"""`work_on_message`: lets the model work on one message, as in scripts. Importing this module takes seconds."""

import typer

from engine.agent.budget import Finish
from engine.agent.events import Report
from engine.app.engine import Engine
from engine.interfaces.cli.chat_request import ChatRequest
from engine.interfaces.cli.chat_session import open_chat
from engine.interfaces.cli.run_watcher import RESUMABLE, RunWatcher, as_object, exit_code
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Exit, emit_json, fail
from engine.interfaces.cli.spinner import Spinner


def work_on_message(ctx: typer.Context, request: ChatRequest, message: str) -> Exit:
    """Work on a message, print the answer, and return the exit code.

    If the conversation has an unfinished run, that is resumed first. Then the message may be empty.
    """
    stream = not request.as_json
    spinner = Spinner("chat")

    async def work(engine: Engine) -> Report | None:
        watcher = RunWatcher(stream=stream, spinner=spinner)
        async with open_chat(engine, request, watcher, stream=stream) as chat:
            report = None
            if chat.unfinished:
                report = await chat.resume()
                watcher.close(report)
            waits = report is not None and report.finish in (*RESUMABLE, Finish.CANCELLED)
            if message.strip() and not waits:
                report = await chat.conversation.run(message)
                watcher.close(report)
            return report

    report = with_engine(ctx, work, spinner)
    if report is None:
        fail("the message is empty. Give one as an argument or on stdin.", Exit.USAGE)
    if request.as_json:
        emit_json(as_object(report))
    return exit_code(report)
