"""`IsolatedRunner`: runs one program, a skill or a variant of it, in a fresh box and returns its answers (SKILL-7)."""

import asyncio
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from acquired_skills.in_box.effort import Effort
from acquired_skills.in_box.recorded_tools import RecordedAnswers
from acquired_skills.jobs.box_files import ISOLATED, PYDANTIC, entry_file, in_box_modules
from acquired_skills.jobs.environment import preload_for
from acquired_skills.jobs.skill_job import call_job
from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.program import SkillProgram, encoded
from acquired_skills.proof.answers import Data, RepeatedAnswers
from acquired_skills.proof.facts import IsolatedAnswers, isolated_answers_of
from acquired_skills.proof.recorded_bridge import RecordedBridge
from sandbox.bridge.bridge import Bridge, BridgedSandbox
from sandbox.contract import Busy, Call, Job, Limits, Mount, Outcome, Sandbox, SandboxError, Unsupported

# Seconds for starting the box and for its end, in addition to the program's own limit. In the first attempt, they are
# also lost when a program cannot be stopped in its process.
_FIRST_S, _APART_S = 0.5, 3.0


@dataclass(frozen=True, slots=True)
class IsolatedRunner:
    """Runs a skill's code without its tests.

    Attributes:
        environment: The requirements of the environment in which the skill is proved and run.
    """

    parsed: ParsedProposal
    environment: tuple[str, ...]
    sandbox: Sandbox
    effort: Effort

    @property
    def name(self) -> str:
        """The name of the skill."""
        return self.parsed.proposal.name

    async def answers(self, calls: Sequence[Data]) -> RepeatedAnswers:
        """Return the skill's answers from two boxes.

        One box makes the calls in order, twice. The other makes them in reverse order.

        Raises:
            ValueError: There are no answers. The message says what happened.
            SandboxError: No box can run.
        """
        code, seconds = self.parsed.code.text, self.effort.answers_s
        twice, back = await asyncio.gather(
            self.run_program(code, [*calls, *calls], seconds), self.run_program(code, calls[::-1], seconds)
        )
        ended: list[Data] = [{"ended": True}] * len(calls)
        forth = twice["answers"] or ended * 2
        backwards = back["answers"] or forth[: len(calls)][::-1]
        return RepeatedAnswers(forth[: len(calls)], forth[len(calls) :], backwards[::-1], twice["seconds"])

    async def run_program(
        self, program: str, calls: Sequence[Data], seconds: float, each_s: float = 0.0, *, path: str = ""
    ) -> IsolatedAnswers:
        """Run a program alone in a box and return its answers.

        Args:
            program: The source of the skill's main file, or a variant of it.
            path: The path of the extra file that `program` is a variant of; "" for the main file.
            seconds: The time limit for all calls.
            each_s: The time limit for each call; 0 for none.

        Raises:
            ValueError: There are no answers. The message says what happened.
            SandboxError: No box can run.
        """
        name = self.name
        arguments = {
            "name": name,
            "calls": list(calls),
            "seconds": seconds,
            "each_s": each_s,
            "tools": list(self.parsed.block.tools),
        }
        texts = {**self.parsed.proposal.files, f"{name}.py": self.parsed.code.text, path or f"{name}.py": program}
        files = {**entry_file(ISOLATED), **{f"skill/{each}": text.encode() for each, text in texts.items()}}

        async def attempt(*, apart: bool) -> IsolatedAnswers:
            call = Call(ISOLATED, "answers", {**arguments, "apart": apart})
            outcome = await self.sandbox.run(self._job(call, files, seconds + (_APART_S if apart else _FIRST_S)))
            if not outcome.ok:
                raise ValueError(f"the box that ran the code ended with {outcome.end}")
            found = isolated_answers_of(outcome.value)
            if found["answers"] is not None and len(found["answers"]) != len(calls):
                raise ValueError("the box did not return exactly one answer to each call")
            return {**found, "seconds": outcome.usage.wall_s}  # measured outside of the box

        try:
            return await attempt(apart=False)
        except ValueError:  # the program ended its process, did not return in time, or returned something else
            return await attempt(apart=True)

    async def call_as_agent(self, arguments: Data, recorded: RecordedAnswers | None = None) -> Outcome:
        """Make one call with the same job as an agent's call, in an empty workspace.

        Args:
            recorded: Answers the calls of the tools that the skill declares, over a bridge as in an agent's call. By
                default, every such call fails.

        Raises:
            SandboxError: No box can run.
        """
        job = self._agents_job(arguments)
        recorded = recorded or RecordedAnswers((), self.parsed.block.tools)
        folder = await asyncio.to_thread(tempfile.mkdtemp)
        try:
            return await self._run(replace(job, workspace=Mount(Path(folder))), recorded)
        except Busy:
            raise
        except SandboxError as error:
            if error.may_have_started:
                raise
            return await self._run(job, recorded)  # some boxes, such as Docker's or root's, cannot mount this folder
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _run(self, job: Job, recorded: RecordedAnswers) -> Outcome:
        if not self.parsed.block.tools:
            return await self.sandbox.run(job)
        if not isinstance(self.sandbox, BridgedSandbox):
            raise Unsupported(f"The sandbox {self.sandbox.name!r} cannot let programs call tools.")
        return await self.sandbox.run_bridged(job, Bridge(RecordedBridge(recorded).answer))

    def _agents_job(self, arguments: Data) -> Job:
        return call_job(
            self.name,
            SkillProgram(self.parsed.code.text.encode(), encoded(self.parsed.proposal.files)),
            arguments,
            plain=True,
            inferred={},
            imports=self.parsed.imports,
            environment=self.environment,
            timeout_s=self.parsed.proposal.timeout_s,
        )

    def _job(self, call: Call, files: Mapping[str, bytes], seconds: float) -> Job:
        always = PYDANTIC if "pydantic" in self.parsed.imports else ()
        return Job(
            call=call,
            files=files,
            preload=preload_for(self.parsed.imports, self.environment, always),
            in_box=in_box_modules(ISOLATED),
            limits=Limits(wall_s=seconds, cpu_s=seconds),
            requirements=self.environment,
        )
