"""`RecordedPrograms`: the service through which `execute` records the programs of runs, so that they can run again."""

import asyncio
import json
import re
import secrets
from collections.abc import Mapping
from typing import Any

from builtin_tools.bridge.planned_calls import ProgramPlan
from builtin_tools.bridge.program_calls import CallBounds, ProgramCalls
from builtin_tools.bridge.program_record import ProgramRecord
from engine.contract.context import CallContext
from engine.contract.repeatable_calls import RepeatableCalls
from engine.stores.program_store import ProgramStore
from sandbox.contract import Job, Language, Outcome

# How programs import the client in Python and Node, and the command for shells.
_CLIENT = re.compile(r"""\b(?:from|import)\s+(?:[\w.]+\s*,\s*)*knackbox\b|['"]knackbox['"]|\bknackbox-call\b""")
_SEED_BYTES = 16


class RecordedPrograms(RepeatableCalls):
    """The programs of one engine."""

    def __init__(self, store: ProgramStore, bounds: CallBounds | None = None) -> None:
        self._store = store
        self._bounds = bounds or CallBounds()

    async def can_repeat(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> bool:
        """Return whether this is a call of `execute` whose program is on record, or would be if it had begun."""
        if name != "execute":
            return False
        tools, code = arguments.get("tools"), str(arguments.get("code", ""))
        if not arguments.get("stateful") and (tools is True or (tools is None and wants_tools(None, code))):
            return True
        return await asyncio.to_thread(self._store.has, call_id)

    async def begin(
        self, ctx: CallContext, code: str, plan: ProgramPlan | None, source: str | None = None
    ) -> tuple[ProgramCalls, str]:
        """Begin a program, or one that was interrupted again.

        Only programs of runs are recorded, since nobody repeats any other call.

        Args:
            ctx: The context of the call of `execute`.
            code: A digest of everything that decides what the program does.
            plan: Collects the calls that change something; None to make them.
            source: The Python code, if nothing else decides what the program does.

        Returns:
            What answers the program, and Python code that must run before it (`Job.prelude`).
        """
        if not ctx.turn.run or not ctx.call_id:
            return ProgramCalls(ctx, bounds=self._bounds, plan=plan), ""
        seed = secrets.token_hex(_SEED_BYTES)
        program = await asyncio.to_thread(
            self._store.open, ctx.call_id, ctx.turn.run, ctx.turn.user, code, seed, source=source
        )
        record = ProgramRecord(self._store, program)
        prelude = f"import knackbox_world\nknackbox_world.begin({program.seed!r}, {record.earlier_readings!r})"
        return ProgramCalls(ctx, record, self._bounds, plan), prelude

    async def finish(self, ctx: CallContext, outcome: Outcome) -> None:
        """Store the result of a program of a run that succeeded, so that a skill can be distilled from it."""
        if ctx.turn.run and ctx.call_id and outcome.ok and not outcome.stdout_dropped:
            stdout = outcome.stdout.decode("utf-8", "replace")
            await asyncio.to_thread(self._store.finish, ctx.call_id, outcome.value, stdout)


def source_of(job: Job) -> str | None:
    """Return the Python code of a job; None if it gets anything else, or is in another language."""
    whole = job.language is Language.PYTHON and not (job.argv or job.stdin or job.files or job.requirements)
    return job.code if whole else None


def code_of(job: Job) -> str:
    """Return a text that differs if the job's program does."""
    return json.dumps([job.language, job.code, job.argv, job.stdin.hex(), sorted(job.files), list(job.requirements)])


def wants_tools(tools: bool | None, *sources: str) -> bool:
    """Return whether a program gets a bridge: if it is asked for or, unless decided, if a source uses the client.

    A program that does not use it gets none, so that nothing can misuse it.
    """
    return any(map(_uses_client, sources)) if tools is None else tools


def _uses_client(source: str) -> bool:
    # Only lines with the name are searched, because a search of a megabyte would block the event loop for 0.2 s.
    return "knackbox" in source and any(_CLIENT.search(line) for line in source.splitlines() if "knackbox" in line)
