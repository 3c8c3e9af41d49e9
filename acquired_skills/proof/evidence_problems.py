"""Describes what is missing from the evidence for a proposal, and asks its author questions (GATE-1, GATE-2)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.prediction import CHECKS, RESULT, Question
from acquired_skills.model.proposal import Proposal, ProposalProblem
from acquired_skills.proof.mutation.mutants import Mutant
from acquired_skills.proof.questions import MOST_UNSPECIFIED, Evidence
from acquired_skills.proof.unexecuted_lines import named_lines

MOST_MUTANTS = 8  # maximum number of surviving mutants in one message
_MOST_CHARS = 200
_MOST_NAMED = 8
_REFERENCE = " Instead of answering, you can send a second, independent implementation in `reference`."
_OTHERS = ", ".join(f"`{check}`" for check in CHECKS if check != RESULT)


def evidence_problems(
    proposal: Proposal,
    found: Evidence,
    mutants: Sequence[Mutant],
    effort: Effort,
    *,
    referable: bool = True,
) -> Iterator[ProposalProblem]:
    """Yield a problem for everything that is missing from the evidence for a proposal.

    Args:
        proposal: The proposal, whose predictions were compared.
        mutants: All mutants that were made, in the order of their numbers.
        effort: The limits of the admission, with the share of the mutants that must be killed.
        referable: Whether a reference may answer the questions.
    """
    if found.compared is not None:
        yield from _of_predictions(proposal, found)
    yield from found.reference.problems
    if found.enough or found.reference.problems:
        return
    asked = [each for each in found.questions if not each.disputed]
    share = _proved(found, effort, least=effort.enough if asked else effort.threshold)
    if asked:
        lines = "\n".join(_template(each) for each in asked)
        yield ProposalProblem(
            "expected",
            f"{share} Work out from the description, not by running the code, what these calls return. Then send the "
            f"proposal again. List these answers in `expected`, and also those that you sent before:\n{lines}\n"
            f"Where the exact result is hard to state, use {_OTHERS} in place of `result`."
            + (_REFERENCE if referable else ""),
            asks=True,
        )
    elif not found.questions and not found.unknown:
        left = sorted(
            (mutants[number] for number, killed in found.mutants.items() if not killed),
            key=lambda each: (each.path, each.line),
        )
        lines = "\n".join(f"- {each.where}: `{each.before}` -> `{each.after}`" for each in left[:MOST_MUTANTS])
        more = f"\n- and {len(left) - MOST_MUTANTS} more" if len(left) > MOST_MUTANTS else ""
        yield ProposalProblem(
            "mutants",
            f"{share} No test fails when the code is changed in one of these ways:\n{lines}{more}\nFor each, add a "
            "test whose result depends on the changed code, or remove the code if no result depends on it.",
        )


def _proved(found: Evidence, effort: Effort, least: float) -> str:
    """Say how little the evidence proves.

    Args:
        least: The share of the mutants that must be killed.
    """
    tests = "The tests and agreed predictions" if found.agreed else "The tests"
    share = f"{tests} kill {found.killed} of {found.met} mutants; {least:.0%} is required."
    if found.unknown:
        share = "Time ran out before most mutants were tried, so it is not known how much the tests prove."
    elif not found.met:
        share = f"{tests} state too few results."
    elif found.killed / found.met >= effort.enough:
        missed = any(not killed and found.survivors.differing.get(number) for number, killed in found.mutants.items())
        share = f"{tests} kill {found.killed} of {found.met} mutants"
        if missed:
            share += ", and at least one of the others changes the result of a call below."
        else:
            share += "." if found.untested else ", but state too few results."
    if found.untested:
        named = ", ".join(f"`{each}`" for each in found.untested[:_MOST_NAMED])
        share += f" No test passes {named}, so nothing shows what happens then."
    if found.constant:
        share += f" They would all pass if the function always returned {found.constant}: test another result, too."
    if found.survivors.unexecuted:
        share += f" No test executes {named_lines(found.survivors.unexecuted)}."
    return share


def _of_predictions(proposal: Proposal, found: Evidence) -> Iterator[ProposalProblem]:
    compared, name, predictions = found.compared, proposal.name, proposal.predictions
    if compared is None:
        return

    def sent(numbers: Sequence[int]) -> list[int]:
        """Leave out the confirmed predictions, which come last: the author of this proposal did not send them."""
        return [number for number in numbers if number < len(proposal.expected)]

    for number in compared.disputed:
        call, checks = shown_call(name, predictions[number].arguments), shown_checks(predictions[number].checks)
        text = (
            f"You expect {checks} from {call}; the code gives another result. Which of the two is right? Correct the "
            "code or the prediction."
            if sent([number])
            else f"{checks} was predicted for {call}, and the current version agrees; this code gives another result. "
            "Restore the result. If it is meant to change, predict the new one in `expected`, or set `breaking=true`."
        )
        yield ProposalProblem("expected", text)
    for number in sorted(set(compared.unanswered) - set(sent(compared.unanswered))):
        call, checks = shown_call(name, predictions[number].arguments), shown_checks(predictions[number].checks)
        yield ProposalProblem(
            "expected",
            f"{checks} was predicted for {call}, and the current version agrees; the result of this code varies or "
            "takes too long. Restore the result. If it is meant to change, set `breaking=true`.",
        )
    if found.enough:
        return
    if len(compared.unspecified) > MOST_UNSPECIFIED:
        yield ProposalProblem(
            "expected",
            f"{len(compared.unspecified)} predictions are `unspecified`; at most {MOST_UNSPECIFIED} are allowed. Let "
            "the code raise ValueError for arguments that it is not meant for, and predict that exception.",
        )
    for number in sent(compared.unanswered):
        yield ProposalProblem(
            "expected",
            f"{shown_call(name, predictions[number].arguments)} cannot be compared with a prediction, because its "
            "result varies or takes too long. Leave this prediction out.",
        )
    for number in sent(compared.weak):
        yield ProposalProblem(
            "expected",
            f"{shown_checks(predictions[number].checks)} is also true of most wrong results of "
            f"{shown_call(name, predictions[number].arguments)}, so it proves little. State `result` or a narrower "
            "check.",
        )
    for number in sent(compared.unasked):
        yield ProposalProblem(
            "expected",
            f"The result of {shown_call(name, predictions[number].arguments)} agrees, but proves nothing: it rejects "
            "no changed version of the code, and admission does not ask about this call, or no longer does since the "
            "tests changed. Leave this prediction out, or make it a test.",
        )


def _template(question: Question) -> str:
    return f'{{"arguments": {json.dumps(question.arguments, ensure_ascii=False)}, "result": …}}'


def shown_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Format a call in one line, as code."""
    return _short(f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})")


def shown_checks(checks: Mapping[str, Any]) -> str:
    """Format the checks of a prediction in one line, as code."""
    return _short(
        ", ".join(f"{check} {operand!r}" if check != RESULT else repr(operand) for check, operand in checks.items())
    )


def _short(text: str) -> str:
    return f"`{text if len(text) <= _MOST_CHARS else text[:_MOST_CHARS] + '…'}`"
