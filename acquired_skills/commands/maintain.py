"""`knackbox skills verify|reindex|audit|trial`: checks, re-admits and compares stored skills."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer

from acquired_skills.commands.shared import Count, table, with_counts, with_library, with_skills
from acquired_skills.composed.admission import Composer
from acquired_skills.composed.suggest import MOST_CALLS
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.lifecycle.readmission import Readmission, ReadmissionVerdict, readmit_all
from acquired_skills.lifecycle.trial import Contestant, SkillTrial, SkillTrials, past_arguments
from acquired_skills.model.skill import Skill, SkillError, SkillKind, SkillState
from acquired_skills.store.reconcile import ReconcileReport
from engine.app.engine import Engine
from engine.contract.turn import Turn
from engine.dispatch.inner_calls import InnerCalls
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, say, visible, wants_json


def verify(ctx: typer.Context, as_json: Json = False) -> None:
    """Read the folder of every skill, check its hashes and signature, and update the records to match the folders.

    The report names the keys that signed the skills. Exits with 3 if a damaged skill was set aside.
    """

    async def work(library: SkillLibrary) -> tuple[ReconcileReport, dict[str, str]]:
        report = await library.folders.verify()
        return report, {one.name: await asyncio.to_thread(library.store.signer, one) for one in await library.skills()}

    report, signers = with_library(ctx, "reading every skill", work)
    _reconciled(ctx, as_json, report, None, signers)


def reindex(ctx: typer.Context, as_json: Json = False) -> None:
    """Verify the skills, then rebuild the search index of those that are active or on probation."""
    report, indexed = with_counts(ctx, "making vectors", lambda engine, count: engine.need(SkillLibrary).reindex(count))
    _reconciled(ctx, as_json, report, indexed)


def audit(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Names of skills; by default all skills, in any state."),
    ] = None,
    *,
    disable: Annotated[
        bool, typer.Option("--disable", help="Disable the refused skills. `knackbox skills enable` undoes it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run the admission of stored skills again, in boxes, and list those that would be refused today, with the reasons.

    Nothing is changed without --disable, and nothing is ever deleted. Refused skills do not make the command fail.
    """

    async def work(engine: Engine, count: Count) -> tuple[list[Readmission], list[str]]:
        library = engine.need(SkillLibrary)
        skills = [await library.get(name) for name in dict.fromkeys(names)] if names else await library.skills()
        composer = Composer(library, engine.need(InnerCalls), engine.sandbox, Turn())

        async def readmit_pipeline(skill: Skill) -> None:
            await composer.readmit(await library.proposal_of(skill))

        by_kind = {**dict.fromkeys(SkillKind, library.readmit), SkillKind.COMPOSED: readmit_pipeline}
        found = await readmit_all(skills, by_kind, count)
        return found, await _disabled(library, found) if disable else []

    found, disabled = with_counts(ctx, "running the admission of every skill again", work)
    if wants_json(ctx, as_json):
        emit_json([{**one.value(), "disabled": one.skill.name in disabled} for one in found])
        return
    _audited(found, disabled)


async def _disabled(library: SkillLibrary, found: Sequence[Readmission]) -> list[str]:
    """Disable the refused skills that are still offered, and return their names."""
    names = [one.skill.name for one in found if one.verdict is ReadmissionVerdict.REFUSED and one.skill.state.listed]
    for name in names:
        await library.set_state(name, SkillState.DISABLED)
    return names


def trial(
    ctx: typer.Context,
    old: Annotated[str, typer.Argument(help="The name of the skill to replace.")],
    new: Annotated[str, typer.Argument(help="The name of another skill for the same purpose.")],
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="Disable OLD, unless NEW is worse. `knackbox skills enable` undoes it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Call two skills with the same inputs, in boxes, and show where their results differ.

    The inputs come from the tests of both skills, from the recorded corrections and failed calls of both, and from
    their past calls. NEW is worse if it does not return a known correct result, or fails where OLD does not. With
    --replace, the command exits with 1 if NEW is worse.
    """

    async def work(engine: Engine) -> tuple[SkillTrial, str]:
        library, trials = engine.need(SkillLibrary), engine.need(SkillTrials)
        one, other = await library.get(old), await library.get(new)
        tried = [Contestant(each, await library.proposal_of(each)) for each in (one, other)]
        past = [row["arguments"] for row in await engine.audit(MOST_CALLS) if row["tool"] in {old, new}]
        found = await trials.run(tried[0], tried[1], None, past_arguments(past))
        if not replace:
            return found, ""
        try:
            await trials.hand_over(one, other, found)
        except SkillError as error:
            return found, str(error)
        await library.set_state(old, SkillState.DISABLED)
        return found, ""

    found, refused = with_skills(ctx, "calling both skills", work)
    if wants_json(ctx, as_json):
        emit_json({**found.value(), "replaced": replace and not refused, "why_not": refused})
    else:
        table(
            [
                {"input": json.dumps(one["arguments"]), **one, "": "worse" if one["worse"] else ""}
                for one in found.value()["differences"]
            ],
            ("input", "old", "new", "right", ""),
        )
        say(f"{old} and {new} differ on {len(found.differences)} of {len(found.results)} inputs.")
        if replace and not refused:
            emit(f"{old} is disabled; {new} replaces it.")
    if refused:
        fail(refused, Exit.FAILED)


def _audited(found: Sequence[Readmission], disabled: Sequence[str]) -> None:
    rows = [
        {
            "name": one.skill.name,
            "version": one.skill.version,
            "state": SkillState.DISABLED if one.skill.name in disabled else one.skill.state,
            "verdict": one.verdict,
            "why": ", ".join(dict.fromkeys(each.part for each in one.problems)),
        }
        for one in found
    ]
    if not found:
        say("there are no skills yet.")
        return
    table(rows, ("name", "version", "state", "verdict", "why"))
    for one in found:
        for each in one.problems:
            emit(visible(f"\n{one.skill.name}: [{each.part}] {each.text}"))
    counts = {verdict: sum(one.verdict is verdict for one in found) for verdict in ReadmissionVerdict}
    unchecked = counts[ReadmissionVerdict.UNKNOWN]
    unknown = f", {unchecked} could not be checked" if unchecked else ""
    of = f"{len(found)} skill{'' if len(found) == 1 else 's'}"
    say(f"{of}: {counts[ReadmissionVerdict.REFUSED]} would be refused today{unknown}.")


def _reconciled(
    ctx: typer.Context,
    as_json: bool,
    report: ReconcileReport,
    indexed: int | None,
    signers: dict[str, str] | None = None,
) -> None:
    if wants_json(ctx, as_json):
        aside = [{"name": one.name, "reason": one.reason, "kept": str(one.kept)} for one in report.aside]
        emit_json(
            {
                "known": report.known,
                "read": report.read,
                "removed": report.removed,
                "set_aside": aside,
                "foreign": report.foreign,
                "indexed": indexed,
                "signed_by": signers,
            }
        )
    else:
        for one in report.aside:
            say(f"{one.name} was set aside as {one.kept}: {one.reason}")
        for line in report.foreign:
            say(line)
        fine = report.known + len(report.read)
        counts = f"{fine} skill{' is' if fine == 1 else 's are'} in order, {len(report.read)} updated in the records"
        for key, count in sorted(Counter((signers or {}).values()).items()):
            emit(f"{count} signed by {key}" if key else f"{count} not signed")
        tail = "" if indexed is None else f", {indexed} indexed"
        emit(f"{counts}, {len(report.removed)} removed, {len(report.aside)} set aside{tail}.")
    raise typer.Exit(int(Exit.ENVIRONMENT if report.aside else Exit.OK))
