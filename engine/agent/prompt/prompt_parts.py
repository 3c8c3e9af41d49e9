"""The parts of messages that the loop must tell apart when it moves parts of a conversation out of the prompt.

To the model client they are what they derive from. What they add is never sent.
"""

from dataclasses import dataclass, field

from pydantic_ai.messages import ToolReturnPart, UserPromptPart


@dataclass(repr=False)
class PersonPart(UserPromptPart):
    """What a person said, as opposed to a message of the loop."""

    @property
    def words(self) -> str:
        """The person's words, without what packs add beside them."""
        return self.content if isinstance(self.content, str) else str(self.content[0])


@dataclass(frozen=True, slots=True)
class Recap:
    """What the prompt still contains of the turns that were moved out (LOOP-6).

    Attributes:
        words: What the user said, oldest first.
        omitted: How many older messages of the user are not in `words`.
        summary: What happened, written by the model or by rule.
        results: One line for each result that can be read by its handle.
        skills: The skills that were used.
        changes: The side effects of successful calls, such as ``"created:report.csv"``.
    """

    words: tuple[str, ...] = ()
    omitted: int = 0
    summary: str = ""
    results: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


@dataclass(repr=False)
class RecapPart(UserPromptPart):
    """The text of a recap."""

    recap: Recap = field(default_factory=Recap)


@dataclass(frozen=True, slots=True)
class ResultNote:
    """What a recap says about a result.

    Attributes:
        handle: How the full text can be read; "" if the call was not run.
        tool: The name of the tool in the engine.
        skill: Whether the tool is a skill.
        success: Whether the call succeeded.
        changes: Its side effects.
    """

    handle: str
    tool: str
    skill: bool = False
    success: bool = True
    changes: tuple[str, ...] = ()


def note_of(part: ToolReturnPart) -> ResultNote:
    """Return the note of a result."""
    return part.metadata if isinstance(part.metadata, ResultNote) else ResultNote("", part.tool_name)
