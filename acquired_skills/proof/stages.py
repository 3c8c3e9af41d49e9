"""Chooses the functions that check and admit a proposal, by the language of the skill."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.proof.admission import Admission, admit
from acquired_skills.proof.programs.program_admission import admit_program
from acquired_skills.proof.programs.program_checks import check_program
from acquired_skills.proof.static_checks import check
from sandbox.contract import Language


@dataclass(frozen=True, slots=True)
class AdmissionStages:
    """The functions that check and admit proposals in one language.

    Attributes:
        check: The static checks (`acquired_skills.proof.static_checks.check`).
        admit: The stages in boxes (`acquired_skills.proof.admission.admit`).
    """

    check: Callable[..., ParsedProposal]
    admit: Callable[..., Coroutine[Any, Any, Admission]]


_PYTHON = AdmissionStages(check, admit)
_PROGRAM = AdmissionStages(check_program, admit_program)


def stages_for(language: Language) -> AdmissionStages:
    """Return the stages for proposals in a language."""
    return _PYTHON if language is Language.PYTHON else _PROGRAM
