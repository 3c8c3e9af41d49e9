"""`knackbox skills verify|reindex`: makes folders, records and index agree."""

import asyncio
from collections import Counter

import typer

from acquired_skills.commands.shared import with_counts, with_library
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.store.reconcile import ReconcileReport
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, say, wants_json


def verify(ctx: typer.Context, as_json: Json = False) -> None:
    """Read every folder, check its hashes and signature, and make the records agree; report who signed what.

    Exits with 3 if a skill was set aside.
    """

    async def work(library: SkillLibrary) -> tuple[ReconcileReport, dict[str, str]]:
        report = await library.verify()
        return report, {one.name: await asyncio.to_thread(library.store.signer, one) for one in await library.skills()}

    report, signers = with_library(ctx, "reading every skill", work)
    _reconciled(ctx, as_json, report, None, signers)


def reindex(ctx: typer.Context, as_json: Json = False) -> None:
    """Verify, then build the index of the listed skills again."""
    report, indexed = with_counts(ctx, "making vectors", lambda library, count: library.reindex(count))
    _reconciled(ctx, as_json, report, indexed)


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
        counts = f"{fine} skill{' is' if fine == 1 else 's are'} in order, {len(report.read)} rows were rewritten"
        for key, count in sorted(Counter((signers or {}).values()).items()):
            emit(f"{count} signed by {key}" if key else f"{count} not signed")
        tail = "" if indexed is None else f", {indexed} indexed"
        emit(f"{counts}, {len(report.removed)} removed, {len(report.aside)} set aside{tail}.")
    raise typer.Exit(int(Exit.ENVIRONMENT if report.aside else Exit.OK))
