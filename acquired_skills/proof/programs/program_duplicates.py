"""Detects duplicates of Node and Bash skills among skills of the same language (SKILL-8)."""

from collections.abc import Sequence

from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.proposal import Proposal
from acquired_skills.proof.answers import Data, same_answer
from acquired_skills.proof.duplicates import LEAST_CALLS, DuplicateCheck, Neighbour
from acquired_skills.proof.programs.program_checks import parsed_program
from acquired_skills.proof.programs.program_runner import ProgramRunner


async def find_duplicate_program(
    runner: ProgramRunner, calls: Sequence[Data], answers: Sequence[Data], neighbours: Sequence[Neighbour]
) -> DuplicateCheck:
    """Make the calls to the neighbours, nearest first, until one answers every call as the new skill did.

    The arguments are passed to the parameters of the neighbour in order.

    Raises:
        SandboxError: No box can run.
    """
    if len(calls) < LEAST_CALLS:
        return DuplicateCheck()
    seconds = runner.effort.duplicates_s / max(1, len(neighbours))
    for number, neighbour in enumerate(neighbours, 1):
        other = ProgramRunner(_parsed(neighbour, runner), (), runner.sandbox, runner.effort)
        names = dict(zip(runner.interface.names, other.interface.names, strict=False))
        if len(names) < len(runner.interface.names):
            continue
        asked = [{**call, "named": {names[name]: value for name, value in call["named"].items()}} for call in calls]
        try:
            found = await other.run_program(neighbour.program.code.decode(), asked, seconds)
        except (ValueError, RecursionError):
            continue
        pairs = zip(answers, found["answers"] or (), strict=False)
        if found["answers"] and all(_alike(one, another) for one, another in pairs):
            return DuplicateCheck(neighbour.name, number, len(calls))
    return DuplicateCheck("", len(neighbours), len(calls))


def _alike(one: Data, other: Data) -> bool:
    return same_answer(one, other) and one.get("files") == other.get("files")


def _parsed(neighbour: Neighbour, like: ProgramRunner) -> ParsedProposal:
    files = {path: data.decode() for path, data in neighbour.program.extra.items()}
    code, language = neighbour.program.code.decode(), like.language
    return parsed_program(Proposal(neighbour.name, "", code, "", files=files, language=language))
