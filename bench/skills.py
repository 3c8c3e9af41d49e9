"""The skills that are timed: one that uses only the standard library, and one that needs pandas."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine import Engine


@dataclass(frozen=True, slots=True)
class BenchSkill:
    """A skill to teach, and the arguments with which it is called."""

    title: str
    name: str
    code: str
    tests: str
    arguments: Mapping[str, Any]


SKILLS = (
    BenchSkill(
        title="standard library",
        name="count_vowels",
        code='''def count_vowels(text: str) -> int:
    """Count the vowels of an English text.

    Args:
        text: The text to look at.
    """
    return sum(letter in "aeiou" for letter in text.lower())
''',
        tests="""from count_vowels import count_vowels


def test_counts_upper_and_lower_case():
    assert count_vowels("Education") == 5
    assert count_vowels("rhythm") == 0
    assert count_vowels("Aa bee") == 4
    assert count_vowels("") == 0
""",
        arguments={"text": "The quick brown fox jumps over the lazy dog"},
    ),
    BenchSkill(
        title="import pandas",
        name="mean_of_column",
        code='''import pandas as pd


def mean_of_column(values: list[float]) -> float:
    """Return the arithmetic mean of a column of numbers.

    Args:
        values: The numbers.
    """
    return float(pd.Series(values).mean())
''',
        tests="""from mean_of_column import mean_of_column


def test_mean():
    assert mean_of_column([1.0, 2.0, 6.0]) == 3.0
    assert mean_of_column([-4.0]) == -4.0
    assert mean_of_column([0.0, 1.0]) == 0.5
""",
        arguments={"values": [1.0, 2.5, 4.0]},
    ),
)


async def teach(engine: Engine, skill: BenchSkill) -> None:
    """Create a skill with `create_skill`, as an agent does.

    Raises:
        RuntimeError: The skill is refused.
    """
    arguments = {
        "name": skill.name,
        "description": f"Benchmark skill: {skill.title}.",
        "code": skill.code,
        "tests": skill.tests,
    }
    result = await engine.call("create_skill", arguments)
    if not result.success:
        raise RuntimeError(f"{skill.name} was refused: {result.error}")
