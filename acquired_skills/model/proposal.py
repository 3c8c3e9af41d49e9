"""`Proposal`: a proposed skill, and `SkillRefused`: the reasons why it was not admitted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from acquired_skills.model.prediction import Prediction, Question
from sandbox.contract import Language

Part = Literal[
    "name",
    "description",
    "code",
    "files",
    "dependencies",
    "destinations",
    "tools",
    "tests",
    "examples",
    "schema",
    "red",
    "green",
    "replay",
    "mutants",
    "expected",
    "reference",
    "duplicate",
    "limits",
    "version",
    "pipeline",
    "cases",
]

DEFAULT_TIMEOUT_S = 30.0
OTHER_KIND = "its tests cannot be run on the proposed version. Choose another name, or set `breaking=true`."
MAX_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed skill.

    Attributes:
        code: One Python file with a function that has the name of the skill. The PEP 723 block of the file declares
            packages, destinations and tools (`acquired_skills.model.script_block`).
        tests: A pytest module that imports the function by its name.
        examples: Requests, in users' words, that the skill should answer; retrieval uses them.
        breaking: Whether the new version may fail the tests of the previous version.
        timeout_s: The time limit of one call of the skill, in seconds of wall time.
        provenance: Who proposes it and how (`acquired_skills.model.provenance`). It is stored with the skill, but has
            no effect on admission.
        expected: The author's predictions of results. Those that agree with the results of the code count as tests.
        language: The language of the code. Tests of Node and Bash skills are cases
            (`acquired_skills.proof.programs.program_cases`).
        files: Extra files: modules that the code imports, and data that it reads, by path relative to the code.
        reference: A second, independent implementation of the function, as one Python file; "" for none. Results in
            which code and reference agree count like predictions.
        confirmed: Predictions that agreed with the version that this proposal replaces. The library adds them.
        claimed: Predictions in the file of an imported skill, for which nobody here vouches. A difference refuses the
            proposal, but agreement proves nothing.
    """

    name: str
    description: str
    code: str
    tests: str
    examples: tuple[str, ...] = ()
    breaking: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S
    provenance: Mapping[str, str] = field(default_factory=dict)
    expected: tuple[Prediction, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    language: Language = Language.PYTHON
    reference: str = ""
    confirmed: tuple[Prediction, ...] = ()
    claimed: tuple[Prediction, ...] = ()

    @property
    def predictions(self) -> tuple[Prediction, ...]:
        """All predictions, the author's first. A confirmed one does not count if the author predicts the same call."""
        return (*self.expected, *(each for each in self.confirmed if not self._predicts(each.arguments)))

    def _predicts(self, arguments: Mapping[str, Any]) -> bool:
        return any(each.arguments == arguments for each in self.expected)


@dataclass(frozen=True, slots=True)
class ProposalProblem:
    """One problem of a proposal.

    Attributes:
        part: The part of the proposal that has to be changed, or the stage of admission that failed.
        text: What is wrong and what to change, for the author.
        asks: Whether the text consists of the questions of the refusal (`SkillRefused.questions`).
    """

    part: Part
    text: str
    asks: bool = False


class SkillRefused(Exception):
    """A proposal was not admitted.

    Attributes:
        problems: All problems that were found; at least one.
        questions: The calls whose results the author is asked to predict in `Proposal.expected`. The texts of the
            problems contain these calls, too.
        disputed: The predictions that differ from the results of the code.
    """

    def __init__(
        self,
        name: str,
        problems: Sequence[ProposalProblem],
        questions: Sequence[Question] = (),
        disputed: Sequence[Prediction] = (),
    ) -> None:
        self.name = name
        self.problems = tuple(problems)
        self.questions = tuple(questions)
        self.disputed = tuple(disputed)
        count = f"{len(self.problems)} things" if len(self.problems) > 1 else "one thing"
        lines = [f"{i}. [{problem.part}] {problem.text}" for i, problem in enumerate(self.problems, 1)]
        super().__init__("\n".join([f"`{name[:80]}` was not admitted: {count} to change.", *lines]))
