"""`knackbox skills distil`: proposes a program of a run that succeeded as a skill, and admits it after a yes."""

from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from acquired_skills.commands.shared import asking_library, report_admission, table, terminal_approver, with_skills
from acquired_skills.distil.distiller import DistilledProposal, Distiller
from acquired_skills.model.proposal import SkillRefused
from acquired_skills.model.provenance import MOST_CHARS, of_person
from acquired_skills.model.skill import Skill
from engine.app.engine import Engine
from engine.contract.turn import Turn
from engine.dispatch.inner_calls import InnerCalls
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, say, visible, wants_json


def distil(
    ctx: typer.Context,
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="The id of a run, or of the call of `execute` in it that ran the program."),
    ],
    *,
    name: Annotated[str, typer.Option("--name", help="The name of the skill. By default, made from the request.")] = "",
    description: Annotated[str, typer.Option("--description", help="What the skill does.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Admit the proposal without asking.")] = False,
    as_json: Json = False,
) -> None:
    """Turn a program of a run, which called tools, into a skill.

    The command shows the code, the literals that become parameters, and the tests, which are made of the recorded
    calls. If you agree, the proposal is tested like any other, and no tool is called. --json prints the proposal; with
    --yes it prints the result of the tests instead.
    """

    async def propose(engine: Engine) -> DistilledProposal:
        find = partial(engine.need(InnerCalls).find, turn=Turn())
        return await engine.need(Distiller).distil(run, find, name=name, description=description)

    proposed = with_skills(ctx, "running the program on its recorded answers", propose)
    if wants_json(ctx, as_json):
        if not yes:
            emit_json(proposed.value())
            return
    else:
        _show(proposed)
        if not yes and not typer.confirm(f"Admit {proposed.proposal.name} if its tests prove it?", err=True):
            fail("Nothing was changed.", Exit.FAILED)

    async def admit(engine: Engine) -> Skill | SkillRefused:
        provenance = {**of_person("knackbox skills distil"), "distilled_from": run[:MOST_CHARS]}
        proposal = replace(proposed.proposal, provenance=provenance)
        try:
            return await asking_library(engine).create(proposal, ask=terminal_approver(ctx, engine))
        except SkillRefused as refused:
            return refused

    report_admission(ctx, as_json, with_skills(ctx, "running the tests in a box", admit), "test")


def _show(proposed: DistilledProposal) -> None:
    proposal = proposed.proposal
    emit(f"{proposal.name}: {visible(proposal.description)}\n")
    emit(visible(proposal.code))
    if proposed.parameters:
        rows = [
            {"parameter": each.name, "value": repr(each.value), "type": each.type, "why": each.why}
            for each in proposed.parameters
        ]
        table(rows, ("parameter", "value", "type", "why"))
    else:
        emit("No literal becomes a parameter: none is in the request or differs in another run.")
    emit(f"\n{visible(proposal.tests)}")
    say(f"the tests are made of the calls in {', '.join(dict.fromkeys(proposed.runs))}.")
    if proposed.others:
        say(f"further programs of this run: {', '.join(proposed.others)}.")
