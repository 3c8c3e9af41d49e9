"""`SkillProgram`: the files of a skill that a box needs to run it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from acquired_skills.model.proposal import Proposal


@dataclass(frozen=True, slots=True)
class SkillProgram:
    """The source of one version of a skill.

    Attributes:
        code: The main file.
        extra: The extra files, by path relative to the main file.
    """

    code: bytes
    extra: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, proposal: Proposal) -> "SkillProgram":
        """Return the program of a proposal."""
        return cls(proposal.code.encode(), encoded(proposal.files))


def encoded(files: Mapping[str, str]) -> dict[str, bytes]:
    """Encode the texts of files, by path, as UTF-8."""
    return {path: text.encode() for path, text in files.items()}
