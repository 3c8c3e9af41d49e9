"""`knackbox skills export|import`: exports and imports skills in the Agent Skills format."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from acquired_skills.commands.shared import terminal_approver, with_library, with_skills
from acquired_skills.composed.admission import Composer
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.names import folder_name
from acquired_skills.model.provenance import of_person
from acquired_skills.portable.exporting import files_of, zipped
from acquired_skills.portable.importing import ImportResult, import_skills
from acquired_skills.store.archive import Files, Unreadable
from engine.app.engine import Engine
from engine.contract.turn import Turn
from engine.dispatch.inner_calls import InnerCalls
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, say, visible, wants_json
from engine.stores.atomic import write_atomic


def export(
    ctx: typer.Context,
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Names of skills, as `knackbox skills list` shows them.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The zip file; by default NAME.zip, or skills.zip for several skills."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the current versions of skills into a zip file. The same skills always produce the same bytes."""

    async def work(library: SkillLibrary) -> dict[str, Files]:
        return {
            folder_name(name): await asyncio.to_thread(files_of, library.store, library.instructions, name)
            for name in names
        }

    found = with_library(ctx, "reading the skills", work)
    target = output or Path(f"{names[0] if len(names) == 1 else 'skills'}.zip")
    try:
        write_atomic(target, zipped(found))
    except OSError as error:
        why = error.strerror or error
        fail(f"{target} cannot be written ({why}): name a file in an existing folder.", Exit.USAGE)
    if wants_json(ctx, as_json):
        emit_json({"file": str(target), "skills": sorted(found)})
    else:
        emit(f"{target}: {', '.join(sorted(found))}.")


def import_(
    ctx: typer.Context,
    paths: Annotated[
        list[Path], typer.Argument(metavar="FOLDER|FILE.zip...", help="Agent Skills.", exists=True, readable=True)
    ],
    *,
    as_text: Annotated[
        bool, typer.Option("--as-instructions", help="Store every skill as instructions, even if it has tests.")
    ] = False,
    trust_predictions: Annotated[
        bool,
        typer.Option(
            "--trust-predictions",
            help="Count the predictions and references in the files as evidence. For skills that you or somebody you "
            "trust exported.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Import Agent Skills.

    A skill with a function and tests, or with a pipeline and cases, must pass the admission of this home. Any other
    skill is stored as instructions, which agents can read. Exits with 1 if a skill was refused. Exits with 2, without
    importing anything, if a file is missing.
    """

    async def work(engine: Engine) -> list[ImportResult]:
        library, ask = engine.need(SkillLibrary), terminal_approver(ctx, engine)
        composer = Composer(library, engine.need(InnerCalls), engine.sandbox, Turn())
        provenance = of_person("knackbox skills import")
        brought: list[ImportResult] = []
        for path in paths:
            try:
                brought += await import_skills(
                    path,
                    library,
                    composer=composer,
                    provenance=provenance,
                    ask=ask,
                    as_text=as_text,
                    trust_predictions=trust_predictions,
                )
            except Unreadable as error:
                brought.append(ImportResult(path.name, "refused", 0, str(error)))
        return brought

    found = with_skills(ctx, "importing", work)
    if wants_json(ctx, as_json):
        emit_json([{"name": b.name, "outcome": b.outcome, "version": b.version, "text": b.text} for b in found])
    else:
        for one in found:
            (say if one.outcome == "refused" else emit)(visible(one.text))
    raise typer.Exit(int(Exit.FAILED if any(one.outcome == "refused" for one in found) else Exit.OK))
