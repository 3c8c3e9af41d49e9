"""`knackbox doctor`: shows the state of every protection and component, the cause of problems and what to do.

With `--self-check` it tests the sandbox instead of relying on its report.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from engine.app.doctor import OK, DoctorCheck, examine, run_self_check
from engine.app.home import Home
from engine.app.sandboxes import unsafe_sandbox
from engine.interfaces.cli.shared import Exit, Json, emit_json, options, say, wants_json
from engine.interfaces.cli.spinner import working
from engine.interfaces.cli.tables import print_table
from sandbox.contract import Sandbox, State
from sandbox.self_check import Finding, Verdict

app = typer.Typer(pretty_exceptions_enable=False)

GOOD = frozenset({OK, State.ENFORCED.value})
COLOURS = {Verdict.HOLDS: "green", Verdict.FAILS: "red", Verdict.SKIPPED: "yellow"}
SelfCheck = Annotated[bool, typer.Option("--self-check", help="Test the sandbox instead, including escape attempts.")]


@app.command()
def doctor(ctx: typer.Context, self_check: SelfCheck = False, as_json: Json = False) -> None:
    """Show what works on this machine. The exit code is 3 if something required is missing or a check fails."""
    home = Home.locate(options(ctx).home, os.environ)
    sandbox = unsafe_sandbox() if options(ctx).unsafe_no_sandbox else None
    if self_check:
        raise typer.Exit(int(self_check_command(home, sandbox, as_json=wants_json(ctx, as_json))))
    with working("examining"):
        checks = asyncio.run(examine(home, os.environ, sandbox))
    bad = [check for check in checks if check.bad]
    if wants_json(ctx, as_json):
        emit_json({"ok": not bad, "checks": [check.as_dict() for check in checks]})
    else:
        show(checks)
        say(verdict(checks))
    raise typer.Exit(int(Exit.ENVIRONMENT if bad else Exit.OK))


def verdict(checks: list[DoctorCheck]) -> str:
    """Return the last line: what is required but missing, or what deserves attention."""
    bad = ", ".join(check.name for check in checks if check.bad)
    if bad:
        return f"required but missing or broken: {bad}."
    notable = ", ".join(f"{check.name} ({check.state})" for check in checks if check.questionable)
    return "everything required works." + (f" Check: {notable}." if notable else "")


def show(checks: list[DoctorCheck]) -> None:
    rows: list[tuple[str | Text, ...]] = []
    group = ""
    for check in checks:
        if check.group != group:
            group = check.group
            rows.append((Text(group, style="bold"), "", ""))
        good = check.state in GOOD
        colour = "green" if good else "red" if check.bad else "yellow"
        detail = check.detail if good else " ".join(part for part in (check.detail, check.remedy) if part)
        rows.append((f"  {check.name}", Text(check.state, style=colour), detail))
    print_table(("check", "state", "detail and remedy"), rows)


def self_check_command(home: Home, sandbox: Sandbox | None, *, as_json: bool) -> Exit:
    """Run the self-check, showing its progress on stderr if that is a terminal."""
    console = Console(stderr=True)
    with console.status("self-check: starting") as status:
        done = Counter[Verdict]()

        def progress(finding: Finding) -> None:
            done[finding.verdict] += 1
            status.update(f"self-check: {verdict_counts(done)}; last: {finding.group}, {finding.name}")

        findings = asyncio.run(run_self_check(home, os.environ, sandbox, on_result=progress))
    failed = done[Verdict.FAILS]
    if as_json:
        emit_json({"ok": not failed, "findings": [asdict(finding) for finding in findings]})
    else:
        show_findings(findings)
        say(f"self-check: {verdict_counts(done)}.")
    return Exit.ENVIRONMENT if failed else Exit.OK


def verdict_counts(done: Mapping[Verdict, int]) -> str:
    return ", ".join(
        f"{done[verdict]} {word}" for verdict, word in zip(Verdict, ("hold", "fail", "skipped"), strict=True)
    )


def show_findings(findings: list[Finding]) -> None:
    rows: list[tuple[str | Text, ...]] = []
    group = ""
    for finding in findings:
        if finding.group != group:
            group = finding.group
            rows.append((Text(group, style="bold"), "", ""))
        rows.append((f"  {finding.name}", Text(finding.verdict, style=COLOURS[finding.verdict]), finding.detail))
    print_table(("check", "verdict", "observation"), rows)
