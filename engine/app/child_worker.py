"""`ChildWorker`: works on child runs with one client of the model. Importing this module takes seconds."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import asdict

from engine.agent.active_run import cancel_active_run
from engine.agent.budget import Budget
from engine.agent.clients.model import ModelClient
from engine.agent.runs import rebuilt
from engine.app.conversation import new_client, open_conversation, runs_of
from engine.app.engine import Engine
from engine.contract.background import MessageReport
from engine.contract.child_runs import ChildRun, WorkedElsewhere
from engine.stores.entry_writer import LeaseLost
from engine.stores.run_journal import RunBusy, RunHasEnded, UnknownRun

CHILD = (
    "You work on one task of a larger piece of work, on behalf of another agent. It sees only your final answer, and "
    "you cannot ask it anything. Answer with the result, or say clearly what is missing.\n"
)


class ChildWorker:
    """Begins, continues and ends the child runs of an engine."""

    def __init__(self, engine: Engine, client: ModelClient, stack: AsyncExitStack) -> None:
        self._engine = engine
        self._client = client
        self._stack = stack
        self._runs = runs_of(engine)

    @classmethod
    async def open(cls, engine: Engine) -> "ChildWorker":
        """Open a client of the configured model.

        Raises:
            ConfigError: No model is configured, or its key is missing.
        """
        stack = AsyncExitStack()
        client = await asyncio.to_thread(new_client, engine)  # loads the provider's client, which takes a second
        return cls(engine, await stack.enter_async_context(client), stack)

    async def aclose(self) -> None:
        await self._stack.aclose()

    async def work(self, child: ChildRun) -> MessageReport:
        """Work on a run until it ends (`engine.contract.child_runs.ChildLoop.work`)."""
        try:
            return await self._until_it_ends(child)
        except RunHasEnded:  # the process that ended it was killed before it could record this for the parent
            return await self._ended(child)
        except (RunBusy, LeaseLost) as error:
            raise WorkedElsewhere(child.id) from error

    async def _until_it_ends(self, child: ChildRun) -> MessageReport:
        known = await asyncio.to_thread(self._known, child.id)
        if known and child.cancelled:
            await cancel_active_run(await self._runs.open(child.id))
            return await self._ended(child)
        turn = child.turn
        opened = open_conversation(
            self._engine,
            turn=turn,
            agent=turn.agent if self._engine.is_registered(turn.agent) else None,
            budget=Budget(**asdict(child.limits)),
            stream=False,
            leave_open=True,
            may_wait=False,
            client=self._client,
            more=CHILD,
        )
        async with opened as talk:
            if known:
                report = await talk.resume(await self._runs.open(child.id))
            else:
                report = await talk.run(child.message, child.id)
        finish, calls = report.finish.value, len(report.calls)
        return MessageReport(finish == "answer", finish, report.answer, report.tokens, calls)

    async def _ended(self, child: ChildRun) -> MessageReport:
        """Return how a run ended, from the journal."""
        journal = self._engine.runs
        state, _ = await asyncio.to_thread(lambda: rebuilt(journal, journal.one(child.id)))
        ended, spent = state.ended, state.spent
        finish, answer = ("error", "") if ended is None else (ended.finish.value, ended.answer)
        return MessageReport(finish == "answer", finish, answer, spent.tokens, spent.tool_calls)

    def _known(self, run: str) -> bool:
        try:
            self._engine.runs.one(run)
        except UnknownRun:
            return False
        return True
