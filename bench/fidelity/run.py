"""`knackbox bench fidelity`: finds test cases that pass in a plain process and fail in a box."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.fidelity import cpython, features, packages, reasons
from bench.fidelity.report import Report, differences
from bench.fidelity.sides import Inside, Outside, Script, Side, Unit
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox

SUITES = ("cpython", "numpy", "pandas", "shell", "node")
_MAX_SHOWN = 160


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run.

    Attributes:
        wanted: Modules, files or features of the suite; empty for all.
        jobs: The number of programs that run at the same time.
        timeout_s: Time limit of one module on one side.
    """

    suite: str = "cpython"
    wanted: tuple[str, ...] = ()
    jobs: int = 1
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one module.

    Attributes:
        differ: Cases that pass outside but not inside, in both of two runs, with their outcome inside.
        flaky: The number of cases that differed only in the first run.
        loaded: "loaded", "skip" or "error", outside and inside.
    """

    name: str
    passed: int
    differ: dict[str, str]
    flaky: int = 0
    loaded: tuple[str, str] = ("loaded", "loaded")
    problem: str = ""

    def rows(self, suite: str) -> list[dict[str, Any]]:
        """Return JSON rows: one for the module, and one for each case that differs."""
        module = {
            "what": "module",
            "suite": suite,
            "name": self.name,
            "pass_outside": self.passed,
            "fail_inside": len(self.differ),
            "flaky": self.flaky,
            "loaded_outside": self.loaded[0],
            "loaded_inside": self.loaded[1],
            "problem": self.problem,
        }
        cases = [
            {"what": "case", "suite": suite, "module": self.name, "name": name, "inside": detail, "protection": why}
            for name, detail in self.differ.items()
            for why in [reasons.protection(name)]
        ]
        return [module, *cases]


def bench(options: Options, console: Console) -> list[dict[str, Any]]:
    """Run a suite, print a table, and return its rows.

    Raises:
        LookupError: The suite is not installed.
    """
    chosen: Sequence[Unit | Script]
    if options.suite == "cpython":
        chosen = cpython.units(options.wanted)
    elif options.suite in packages.FOLDERS:
        chosen = packages.units(options.suite, options.wanted)
    else:
        chosen = features.scripts(options.suite, options.wanted)
    results = asyncio.run(measure(chosen, options, console))
    rows = [row for result in results for row in result.rows(options.suite)]
    rows.append(total(results, options.suite))
    _show(results, rows[-1], console)
    return rows


def total(results: Sequence[Result], suite: str) -> dict[str, Any]:
    """Return the row with the sums over all modules."""
    passed = sum(result.passed for result in results)
    differ = [name for result in results for name in result.differ]
    return {
        "what": "total",
        "suite": suite,
        "modules": len(results),
        "pass_outside": passed,
        "fail_inside": len(differ),
        "unexplained": sum(not reasons.protection(name) for name in differ),
        "flaky": sum(result.flaky for result in results),
        "not_loaded_inside": sum(result.loaded == ("loaded", "error") for result in results),
        "share": 1 - len(differ) / passed if passed else None,
    }


async def measure(chosen: Sequence[Unit | Script], options: Options, console: Console) -> list[Result]:
    """Run every unit outside and inside, alternately, `options.jobs` units at the same time."""
    slots = asyncio.Semaphore(options.jobs)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    async with NamespaceSandbox(NamespaceConfig(warm=1, max_boxes=options.jobs)) as sandbox:
        outside, inside = Outside(options.timeout_s), Inside(sandbox, options.timeout_s)
        with Progress(*columns, console=console, transient=True) as progress:
            bar = progress.add_task(options.suite, total=len(chosen))

            async def one(each: Unit | Script) -> Result:
                async with slots:
                    progress.update(bar, description=f"{options.suite}: {each.name}")
                    if isinstance(each, Unit):
                        result = await _compare_unit(each, outside, inside)
                    else:
                        result = await _compare_script(each, outside, inside)
                    progress.advance(bar)
                    for name, detail in result.differ.items():
                        progress.console.print(f"  {escape(name)}: {escape(_line(detail))}", style="dim")
                    return result

            return list(await asyncio.gather(*(one(each) for each in chosen)))


async def _compare_unit(unit: Unit, outside: Side, inside: Side) -> Result:
    """Run a unit on both sides. A case counts as different only if it differs in two runs."""
    report_outside, report_inside = await outside.run(unit), await inside.run(unit)
    first = differences(report_outside, report_inside)
    differ = first
    if first:
        again = differences(await outside.run(unit), await inside.run(unit))
        differ = {name: detail for name, detail in first.items() if name in again}
    return Result(
        unit.name,
        sum(1 for _ in report_outside.passed),
        differ,
        flaky=len(first) - len(differ),
        loaded=(report_outside.loaded, report_inside.loaded),
        problem=_problem(report_outside, report_inside),
    )


def _problem(outside: Report, inside: Report) -> str:
    sides = (("outside", outside), ("inside", inside))
    return " | ".join(f"{side}: {one.problem}" for side, one in sides if one.problem)


async def _compare_script(script: Script, outside: Side, inside: Side) -> Result:
    output_outside, output_inside = await outside.output(script), await inside.output(script)
    if output_outside == output_inside:
        return Result(script.name, 1, {})
    output_outside, output_inside = await outside.output(script), await inside.output(script)
    if output_outside == output_inside:
        return Result(script.name, 1, {}, flaky=1)
    return Result(script.name, 1, {script.name: f"outside {output_outside!r}, inside {output_inside!r}"})


def _show(results: Sequence[Result], summary: dict[str, Any], console: Console) -> None:
    table = Table(title="Cases that pass outside the box and fail inside", title_justify="left")
    for heading in ("module", "pass outside", "fail inside", "flaky", "remark"):
        table.add_column(heading, justify="left" if heading in ("module", "remark") else "right")
    for result in results:
        counts = (str(result.passed), str(len(result.differ)), str(result.flaky))
        table.add_row(escape(result.name), *counts, escape(_line(result.problem)))
    table.add_section()
    table.add_row("total", *(str(summary[key]) for key in ("pass_outside", "fail_inside", "flaky")))
    console.print(table)
    for result in results:
        for name, detail in result.differ.items():
            console.print(f"{escape(name)}\n  {reasons.protection(name) or 'unexplained'}: {escape(_line(detail))}")
    if summary["share"] is not None:
        console.print(
            f"{summary['share']:.3%} of the cases that pass outside also pass inside; {summary['unexplained']} of the "
            "differences are unexplained"
        )


def _line(text: str) -> str:
    first = text.strip().partition("\n")[0]
    return first if len(first) <= _MAX_SHOWN else first[: _MAX_SHOWN - 1] + "…"
