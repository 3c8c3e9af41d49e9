"""`knackbox skills compose|suggest`: makes skills of pipelines of calls, and suggests pipelines from the call log."""

import asyncio
import json
from typing import Annotated, Any

import typer
from pydantic import BaseModel, ConfigDict, ValidationError

from acquired_skills.commands.shared import report_admission, with_skills
from acquired_skills.composed.admission import DEFAULT_TIMEOUT_S, Composer
from acquired_skills.composed.pipeline import validation_messages
from acquired_skills.composed.suggest import MOST_CALLS, Suggestion, suggest_pipelines
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.model.provenance import of_person
from acquired_skills.model.skill import Skill
from engine.app.engine import Engine
from engine.contract.failure import ConfigError
from engine.contract.strict_json import JsonError, read_json
from engine.contract.turn import Turn
from engine.dispatch.inner_calls import InnerCalls
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Json, emit, emit_json, read_input, say, wants_json
from engine.interfaces.cli.spinner import working
from engine.turn.discovery import Discovery


class _File(BaseModel):
    """The content of a file for `compose`: the arguments of the tool compose_skill."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    description: str
    pipeline: dict[str, Any]
    cases: list[dict[str, Any]]
    examples: list[str] = []
    breaking: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S

    def proposal(self) -> Proposal:
        program, cases = json.dumps(self.pipeline), json.dumps(self.cases)
        provenance = of_person("knackbox skills compose")
        return Proposal(
            self.name,
            self.description,
            program,
            cases,
            tuple(self.examples),
            self.breaking,
            self.timeout_s,
            provenance,
        )


def compose(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE.json", help="A JSON file with the arguments of compose_skill.")],
    as_json: Json = False,
) -> None:
    """Propose a pipeline of calls as a skill.

    The skill is stored if its cases prove it. Otherwise the command reports everything that has to be changed.
    """
    proposal = _read(file).proposal()

    async def work(engine: Engine) -> Skill | SkillRefused:
        composer = Composer(engine.need(SkillLibrary), engine.need(InnerCalls), engine.sandbox, Turn())
        try:
            return await composer.compose(proposal)
        except SkillRefused as refused:
            return refused

    result = with_skills(ctx, "trying the cases", work)
    report_admission(ctx, as_json, result, "case")


def suggest(
    ctx: typer.Context,
    times: Annotated[int, typer.Option("--times", min=2, help="Minimum number of times a sequence must occur.")] = 3,
    as_json: Json = False,
) -> None:
    """Suggest pipelines for sequences of calls that recur. Nothing is composed."""

    async def work(engine: Engine) -> list[Suggestion]:
        rows = await engine.audit(MOST_CALLS)
        specs = await engine.need(Discovery).look_up({row["tool"] for row in rows}, Turn())
        return await asyncio.to_thread(suggest_pipelines, rows, specs, times)

    with working("reading the calls"):
        found = with_engine(ctx, work)
    if wants_json(ctx, as_json):
        emit_json([each.value() for each in found])
        return
    if not found:
        say(f"no sequence of calls occurred at least {times} times.")
    for each in found:
        emit(f"{' -> '.join(each.tools)}, {each.times} times\n{json.dumps(each.pipeline, indent=2)}")
        emit("".join(f"- {note}\n" for note in each.notes))


def _read(file: str) -> _File:
    try:
        given = read_json(read_input(file, "the pipeline"))
        if not isinstance(given, dict):
            raise ConfigError(f"{file}: not a JSON object. Write one with name, description, pipeline and cases.")
        return _File.model_validate(given)
    except JsonError as error:
        raise ConfigError(f"{file}: not valid JSON: {error}.") from error
    except ValidationError as error:
        raise ConfigError(f"{file}: {' '.join(validation_messages(error))}") from error
