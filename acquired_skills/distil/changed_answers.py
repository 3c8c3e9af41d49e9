"""Makes variants of a recording: tools that fail, and tools that give other answers than in the run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acquired_skills.distil.literals import Value

REASON = "unavailable"
_MOST_ANSWERS = 4  # other answers of one call


@dataclass(frozen=True, slots=True)
class ChangedRecording:
    """A changed world for one call of the skill.

    Attributes:
        tool: The tool that answers otherwise; "" if only the arguments differ.
        statement: The statement of a test that makes the change; "" if only the arguments differ.
        rules: The recording with the change.
        arguments: The arguments of the skill.
    """

    tool: str
    statement: str
    rules: Sequence[Mapping[str, Any]]
    arguments: Mapping[str, Value]

    @property
    def fails(self) -> bool:
        """Whether the tool fails."""
        return self.statement.startswith("tools.fails(")


def failing(tool: str, recorded: Sequence[Mapping[str, Any]], arguments: Mapping[str, Value]) -> ChangedRecording:
    """Return the variant in which the tool fails whatever its arguments are."""
    failed = {
        "class": "RETRYABLE",
        "reason": REASON,
        "message": "The tool is not available.",
        "may_have_happened": False,
    }
    rules = [*(each for each in recorded if each["tool"] != tool), {"tool": tool, "failed": failed}]
    return ChangedRecording(tool, f"tools.fails({tool!r}, {REASON!r})", rules, arguments)


def answering(
    tool: str, recorded: Sequence[Mapping[str, Any]], arguments: Mapping[str, Value]
) -> Iterator[ChangedRecording]:
    """Yield variants in which one call of the tool gets another answer."""
    for rule in recorded:
        if rule["tool"] != tool or "value" not in rule:
            continue
        for other in list(other_values(rule["value"]))[:_MOST_ANSWERS]:
            given = rule["arguments"]
            kept = [each for each in recorded if each["tool"] != tool or each["arguments"] != given]
            statement = f"tools.returns({tool!r}, {other!r}, {given!r})"
            yield ChangedRecording(
                tool, statement, [*kept, {"tool": tool, "arguments": given, "value": other}], arguments
            )


def with_other_arguments(
    recorded: Sequence[Mapping[str, Any]], arguments: Mapping[str, Value]
) -> Iterator[ChangedRecording]:
    """Yield variants with another value of one argument, which may lead to calls that are not recorded."""
    for name, value in arguments.items():
        for other in other_values(value):
            yield ChangedRecording("", "", recorded, {**arguments, name: other})


def other_values(value: Any) -> Iterator[Any]:  # noqa: C901, PLR0912 -- one branch per kind
    """Yield values of the same kind that differ a little, those with more content first."""
    match value:
        case bool():
            yield not value
        case int() | float():
            yield from (value + 1, value - 1, value * 2 + 3)
        case str():
            lines = value.splitlines()
            if len(lines) > 1:
                yield from ("\n".join(lines[1:]), "\n".join([*lines, lines[-1]]))
            words = value.split()
            if len(words) > 1:
                yield from (" ".join(words[1:]), " ".join([*words, words[-1]]))
            yield from (each for each in (value + value[-1:], "") if each != value)
        case list():
            if value:
                yield from (value[1:], [*value, value[-1]])
                for other in other_values(value[0]):
                    yield [other, *value[1:]]
                    break
            else:
                yield ["other"]
        case dict():
            for name, inner in value.items():
                for other in other_values(inner):
                    yield {**value, name: other}
                    break
            if not value:
                yield {"other": "value"}
        case None:
            yield "other"
