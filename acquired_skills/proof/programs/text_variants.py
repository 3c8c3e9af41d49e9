"""Makes mutants of Node and Bash programs by changing their text (SKILL-6).

They are made in a box, because a hostile text may take a long time to split into tokens. The program is not run.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from acquired_skills.jobs.box_files import TEXT_MUTANTS, box_files
from acquired_skills.jobs.skill_job import PROGRAM_MEMORY
from acquired_skills.model.parsed import ParsedSource
from acquired_skills.proof.mutation.mutants import MAX_SHOWN, Mutant
from acquired_skills.proof.mutation.programs import MutantWriter
from acquired_skills.proof.programs.program_runner import ProgramRunner
from sandbox.contract import Call, Job, Language, Limits

_SECONDS = 20.0
_LANGUAGES = {".mjs": Language.NODE, ".js": Language.NODE, ".cjs": Language.NODE, ".sh": Language.BASH}
_DATA = frozenset((".csv", ".json", ".md", ".tsv", ".txt", ".yaml", ".yml"))
_AROUND = 12  # maximum number of characters shown before and after a change
_Change = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)], Annotated[str, Field(max_length=1_000)]]


@with_config(ConfigDict(extra="forbid"))
class MadeMutants(TypedDict):
    """The output of the box that made the mutants."""

    error: Annotated[str, Field(max_length=1_000)]
    mutants: Annotated[list[_Change], Field(max_length=1_000)]
    neutral: Annotated[list[_Change], Field(max_length=1_000)]


_MADE = TypeAdapter(MadeMutants)


@dataclass(frozen=True, slots=True)
class TextMutant(Mutant):
    """A change to a program's text.

    Attributes:
        start, end: The range of the replaced text, as character offsets.
        text: The new text.
    """

    start: int = 0
    end: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class TextVariants:
    """The variants of a program.

    Attributes:
        error: The syntax error of the program; "" if there is none.
        neutral: Changes that do not change the program's meaning.
        complete: Whether there are mutants and neutral variants of the program and of each module.
    """

    error: str = ""
    mutants: tuple[TextMutant, ...] = ()
    neutral: tuple[TextMutant, ...] = ()
    complete: bool = False


class TextMutantWriter(MutantWriter):
    """Writes mutants of a program's text as programs.

    Attributes:
        files: The extra files of the skill, by path.
    """

    def __init__(self, source: ParsedSource, files: Mapping[str, str]) -> None:
        super().__init__(source)
        self.files = files

    def changed(self, mutant: Mutant) -> str | None:
        """Return the text of the changed file; None if the mutant is not a change to text."""
        if not isinstance(mutant, TextMutant):
            return None
        code = self.files[mutant.path] if mutant.path else self.source.text
        return code[: mutant.start] + mutant.text + code[mutant.end :]


def unmutated_files(files: Iterable[str]) -> list[str]:
    """Return the paths of the extra files that may contain code but get no mutants."""
    return [path for path in files if _language(path) is None and PurePosixPath(path).suffix not in _DATA]


async def make_text_variants(runner: ProgramRunner, most: int, seed: int) -> TextVariants:
    """Return the variants of a program and its modules. The same seed gives the same mutants.

    Raises:
        SandboxError: No box can run.
    """
    made = [await _variants(runner, runner.language, "", runner.parsed.code.text, most=most, seed=seed)]
    for path, text in runner.parsed.proposal.files.items():
        language = _language(path)
        if language is not None and text.strip():
            made.append(await _variants(runner, language, path, text, most=most, seed=seed))
    return TextVariants(
        next((each.error for each in made if each.error), ""),
        _in_turn(each.mutants for each in made)[:most],
        _in_turn(each.neutral for each in made),
        all(each.mutants and each.neutral for each in made),
    )


async def _variants(
    runner: ProgramRunner, language: Language, path: str, code: str, *, most: int, seed: int
) -> TextVariants:
    """Return the variants of one file."""
    given = {"language": language.value, "code": code, "most": most, "seed": seed}
    job = Job(
        call=Call(TEXT_MUTANTS, "mutants", given),
        files=box_files(TEXT_MUTANTS),
        limits=Limits(wall_s=_SECONDS, cpu_s=_SECONDS, memory_bytes=PROGRAM_MEMORY),
    )
    outcome = await runner.sandbox.run(job)
    try:
        made = _MADE.validate_python(outcome.value)
    except ValidationError:
        return TextVariants()
    mutants, neutral = (
        tuple(_mutant(path, code, each) for each in some) for some in (made["mutants"], made["neutral"])
    )
    where = f"{path}: " if path and made["error"] else ""
    return TextVariants(where + made["error"], mutants, neutral)


def _in_turn(rows: Iterable[Sequence[TextMutant]]) -> tuple[TextMutant, ...]:
    return tuple(each for turn in zip_longest(*rows) for each in turn if each is not None)


def _language(path: str) -> Language | None:
    """Return the language of an extra file; None if no mutants of it can be made."""
    return _LANGUAGES.get(PurePosixPath(path).suffix)


def _mutant(path: str, code: str, change: tuple[int, int, str]) -> TextMutant:
    start, end, text = change
    line = code.count("\n", 0, start) + 1
    first = max(code.rfind("\n", 0, start) + 1, start - _AROUND)
    last = code.find("\n", end)
    last = min(last if last >= 0 else len(code), end + _AROUND)
    before, after = code[first:last], code[first:start] + text + code[end:last]
    nowhere: Any = ast.Pass()  # a placeholder, because a text has no syntax tree
    return TextMutant(
        line, before.strip()[:MAX_SHOWN], after.strip()[:MAX_SHOWN], nowhere, nowhere, _no_tree, path, start, end, text
    )


def _no_tree(_: ast.AST) -> None:
    raise TypeError("a text mutant cannot be made in a syntax tree; use TextMutantWriter.changed")
