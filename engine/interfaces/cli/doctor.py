"""`knackbox doctor`: every protection and every part, whether it is there, why not, and what to do.

With `--self-check`, the sandbox is put to the test instead of being asked.
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
SelfCheck = Annotated[
    bool, typer.Option("--self-check", help="Put the sandbox to the test instead: its contract, and escapes.")
]


@app.command()
def doctor(ctx: typer.Context, self_check: SelfCheck = False, as_json: Json = False) -> None:
    """Show what holds on this machine. Ends with 3 when something that is required is missing, or a check fails."""
    home = Home.locate(options(ctx).home, os.environ)
    sandbox = unsafe_sandbox() if options(ctx).unsafe_no_sandbox else None
    if self_check:
        raise typer.Exit(int(try_the_box(home, sandbox, as_json=wants_json(ctx, as_json))))
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
    """The last line: what is wrong, the most important first."""
    bad = ", ".join(check.name for check in checks if check.bad)
    if bad:
        return f"required but missing or broken: {bad}."
    look = ", ".join(f"{check.name} ({check.state})" for check in checks if check.questionable)
    return "everything required is there." + (f" Look at: {look}." if look else "")


def show(checks: list[DoctorCheck]) -> None:
    rows: list[tuple[str | Text, ...]] = []
    group = ""
    for check in checks:
        if check.group != group:
            group = check.group
            rows.append((Text(group, style="bold"), "", ""))
        good = check.state in GOOD
        colour = "green" if good else "red" if check.bad else "yellow"
        told = check.detail if good else " ".join(part for part in (check.detail, check.remedy) if part)
        rows.append((f"  {check.name}", Text(check.state, style=colour), told))
    print_table(("what", "state", "detail, and what to do"), rows)


def try_the_box(home: Home, sandbox: Sandbox | None, *, as_json: bool) -> Exit:
    """The self-check, with its progress on stderr when a person is looking."""
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
    print_table(("check", "verdict", "what was seen"), rows)
