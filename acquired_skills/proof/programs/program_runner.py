"""`ProgramRunner`: runs a Node or Bash program, or a variant, in a fresh box and returns its answers (SKILL-22)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from acquired_skills.jobs.box_files import PROGRAM_ANSWERS, box_files
from acquired_skills.jobs.skill_job import PROGRAM_MEMORY, program_files, program_interface, program_job
from acquired_skills.model.program import SkillProgram, encoded
from acquired_skills.proof.answers import Data
from acquired_skills.proof.facts import IsolatedAnswers, isolated_answers_of
from acquired_skills.proof.isolated_runner import IsolatedRunner
from acquired_skills.proof.programs.doc_comments import ProgramInterface
from acquired_skills.proof.programs.program_language import PROGRAM_LANGUAGES
from sandbox.contract import Call, Job, Language, Limits

_LOADING_S = 5.0  # seconds for starting the box and the interpreter, in addition to the program's own limit


@dataclass(frozen=True, slots=True)
class ProgramRunner(IsolatedRunner):
    """Runs the program of a Node or Bash skill, with the interface that its comment states."""

    interface: ProgramInterface = field(init=False)

    def __post_init__(self) -> None:
        proposal = self.parsed.proposal
        object.__setattr__(self, "interface", PROGRAM_LANGUAGES[self.language].interface(proposal.name, proposal.code))

    @property
    def language(self) -> Language:
        """The language of the program."""
        return self.parsed.proposal.language

    async def run_program(
        self, program: str, calls: Sequence[Data], seconds: float, each_s: float = 0.0, *, path: str = ""
    ) -> IsolatedAnswers:
        """Run a program alone in a box and return its answers, as `IsolatedRunner.run_program` does."""
        given = {
            **program_interface(self.language, self.name, self.interface.parameters, self.interface.returns),
            "calls": list(calls),
            "seconds": seconds,
            "each_s": each_s,
        }
        extra = encoded(self.parsed.proposal.files)
        whole = SkillProgram(self.parsed.code.text.encode(), {**extra, path: program.encode()})
        if not path:
            whole = SkillProgram(program.encode(), extra)
        job = Job(
            call=Call(PROGRAM_ANSWERS, "answers", given),
            files={**box_files(PROGRAM_ANSWERS), **program_files(self.language, self.name, whole)},
            limits=Limits(wall_s=seconds + _LOADING_S, cpu_s=seconds + _LOADING_S, memory_bytes=PROGRAM_MEMORY),
        )
        outcome = await self.sandbox.run(job)
        if not outcome.ok:
            raise ValueError(f"the box of the program ended with {outcome.end}")
        found = isolated_answers_of(outcome.value)
        if found["answers"] is not None and len(found["answers"]) != len(calls):
            raise ValueError("the program did not give one answer to each call")
        return found

    def _agents_job(self, arguments: Data) -> Job:
        return program_job(
            self.language,
            self.name,
            SkillProgram(self.parsed.code.text.encode(), encoded(self.parsed.proposal.files)),
            arguments,
            parameters=self.interface.parameters,
            returns=self.interface.returns,
            timeout_s=self.parsed.proposal.timeout_s,
        )
