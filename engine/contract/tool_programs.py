"""`ToolPrograms`: runs a program in a box that calls other tools of the turn."""

from collections.abc import Sequence
from typing import Protocol

from engine.contract.context import CallContext
from sandbox.contract import Job, Outcome


class ToolPrograms(Protocol):
    """Runs programs that call tools. A pack that can do so provides itself under this class (`Pack.provides`)."""

    async def run_declared(self, ctx: CallContext, job: Job, what: str, tools: Sequence[str]) -> Outcome:
        """Run the job of a call. Its program can call exactly these tools, with the rights of the call's turn.

        Each such call goes through the whole pipeline, and has the call of `ctx` as its parent in the audit.

        Args:
            what: The program, as the subject of a sentence, such as "The skill `report`".
            tools: The names of the tools.

        Raises:
            ToolFailure: The turn may not call one of the tools, or a call needed an approval that nobody gave.
            SandboxError: The job could not be run, for a reason other than its code.
        """
        ...
