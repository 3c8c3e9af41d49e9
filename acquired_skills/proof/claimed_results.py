"""Compares the predictions in the file of an imported skill with the results of its code (GATE-9).

Whoever made the file can have run the code and written down what it returns. So such predictions are only claims: a
difference is a reason to refuse the skill, but agreement is no evidence.
"""

from collections.abc import Sequence

from acquired_skills.model.prediction import Prediction
from acquired_skills.model.proposal import ProposalProblem
from acquired_skills.proof.evidence_problems import shown_call, shown_checks
from acquired_skills.proof.isolated_runner import IsolatedRunner
from acquired_skills.proof.json_calls import JsonCalls
from acquired_skills.proof.prediction_checks import satisfies
from acquired_skills.proof.variants import EACH_S


async def claim_problems(
    runner: IsolatedRunner, calls: JsonCalls, claimed: Sequence[Prediction]
) -> list[ProposalProblem]:
    """Make the claimed calls in a box, and return a problem for each result that differs from its claim.

    Calls that take too long are not compared.

    Raises:
        SandboxError: No box can run.
    """
    if not claimed:
        return []
    given = [calls.call(each.arguments) for each in claimed]
    try:
        found = await runner.run_program(runner.parsed.code.text, given, runner.effort.similar_calls_s, EACH_S)
    except ValueError as error:
        return [ProposalProblem("expected", f"The predictions in the file cannot be compared with the code: {error}.")]
    answers = found["answers"] or []
    return [
        ProposalProblem(
            "expected",
            f"The file predicts {shown_checks(each.checks)} for {shown_call(runner.name, each.arguments)}; the code "
            "gives another result. Which of the two is right? Ask the author of the file.",
        )
        for each, answer in zip(claimed, answers, strict=False)
        if ("value" in answer or "raised" in answer) and not satisfies(answer, each)
    ]


def claim_note(claimed: Sequence[Prediction]) -> tuple[str, ...]:
    """Return a note about claims that agree with the code; nothing if there are none."""
    if not claimed:
        return ()
    return (
        (
            f"No result of the code contradicts the {len(claimed)} predictions in the imported file. They do not count "
            "as evidence, because nobody here vouches for the file."
        ),
    )
