"""`execute`: run code in a fresh box, or a cell in a kernel that stays, with the workspace as working directory."""

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from acquired_skills.jobs.preload import preload_for
from builtin_tools.created_files import created_since, files_in
from builtin_tools.kernels.cells import CellOutput, run_cell
from builtin_tools.kernels.owner import DEFAULT, KernelName
from builtin_tools.refusals import wrong_arguments
from builtin_tools.workspace_program import program_of
from engine.contract.context import CallContext, Produced
from engine.contract.spec import Annotations
from engine.dispatch.large import LARGE_CHARACTERS, is_large
from engine.dispatch.outcome import raise_unless_ok
from engine.dispatch.pieces import pieces_for
from engine.registry.decorate import tool
from sandbox.contract import Job, Language, Limits, Mount, Outcome

DEADLINE_S = 120.0
MAX_RUN_S = 110  # under the deadline, so that the box itself ends the run and says why


class RunOutput(TypedDict):
    """Of a run in a fresh box."""

    end: str
    exit_code: int | None
    value: Any
    stdout: str
    stderr: str
    limits_hit: list[str]


@tool(
    required_permission="user",
    category="execution",
    requires=("sandbox",),
    annotations=Annotations(destructive=True),
    side_effects=("code_execution", "filesystem_write"),
    safety_class="HIGH",
    timeout_s=DEADLINE_S,
)
async def execute(
    ctx: CallContext,
    language: Literal["python", "node", "bash"] | None = None,
    code: str = "",
    *,
    filename: str = "",
    args: list[str] | None = None,
    stdin: str = "",
    timeout_s: Annotated[float, Field(gt=0, le=MAX_RUN_S)] = 30.0,
    stateful: bool = False,
    kernel: KernelName = DEFAULT,
) -> Produced[RunOutput | CellOutput]:
    """Run Python, Node or Bash code, or a program of your workspace, in an isolated box and get what it printed.

    Give `language` and `code`, or the `filename` of a program in your workspace, with `args`. The working directory is
    your workspace: files you read and write there stay. There is no network. In Python the value of a last expression
    comes back too, so end with the result you want; numpy and pandas can be imported where installed. Each call is a
    fresh box: no variables and no processes are kept.
    With stateful=true (Python only) the code is a cell of a Jupyter kernel of yours instead, which keeps variables and
    imports for your next stateful call; plots and other rich outputs become files in `outputs/`.

    Args:
        language: Which interpreter. For a file it may be left out: its suffix or first line tells.
        code: The whole program, or the cell.
        filename: A program in the workspace to run instead of `code`, such as `scripts/report.py`.
        args: What the program gets as its arguments.
        stdin: What the program reads on its standard input; not with stateful.
        timeout_s: Seconds until the run is killed; a cell is interrupted, and its kernel keeps its state.
        stateful: Keep variables between calls, in a kernel.
        kernel: Which of your kernels; a new name starts a new one.
    """
    if bool(code) == bool(filename):
        what = "Both `code` and `filename` are given" if code else "`code` is missing"
        raise wrong_arguments(f"{what}: give `code`, or `filename` to run a file of the workspace.")
    if stateful:
        if filename or args:
            raise wrong_arguments("A cell is code without arguments: leave `filename` and `args` out, or stateful.")
        if language not in {"python", None}:
            raise wrong_arguments(f"stateful is for Python only: run {language} without it, or Python with it.")
        if stdin:
            raise wrong_arguments("A cell has no stdin: put the text into the code, or leave stateful out.")
        return await run_cell(ctx, code, kernel, imports_of(code), timeout_s)
    if filename:
        program = await asyncio.to_thread(program_of, ctx, filename, language)
        language, code, text_of_program = program.language, program.starter, program.text
    elif language is None:
        raise wrong_arguments("`language` is missing: say which one the code is in.")
    else:
        text_of_program = code
    job = Job(
        language=Language(language),
        code=code,
        argv=tuple(args or ()),
        stdin=stdin.encode("utf-8", "surrogatepass"),
        preload=preload_for(imports_of(text_of_program)) if language == "python" else (),
        workspace=Mount(ctx.workspace.root),
        limits=Limits(wall_s=timeout_s, cpu_s=timeout_s),
    )
    root = ctx.workspace.root
    before = await asyncio.to_thread(files_in, root)
    outcome = raise_unless_ok(await ctx.sandbox.run(job, on_output=pieces_for(ctx)), filename or f"The {language} code")
    created = await asyncio.to_thread(created_since, before, root)
    if is_large(outcome.value) or len(outcome.stdout) + len(outcome.stderr) > LARGE_CHARACTERS:
        return await asyncio.to_thread(_produced, language, outcome, created)
    return _produced(language, outcome, created)


def _produced(language: str, outcome: Outcome, created: Sequence[str]) -> Produced[RunOutput]:
    effects = (f"executed:{language}", *(f"created:{path}" for path in created))
    return Produced(result(outcome), message(outcome), effects)


def imports_of(code: str) -> tuple[str, ...]:
    """Top-level names a Python program seems to import. A guess is enough: it only picks a warmer template."""
    return tuple(re.findall(r"^[ \t]*(?:import|from)[ \t]+(\w+)", code, re.MULTILINE))


def result(outcome: Outcome) -> RunOutput:
    """An outcome as JSON, streams as text."""
    return {
        "end": str(outcome.end),
        "exit_code": outcome.exit_code,
        "value": outcome.value,
        "stdout": text(outcome.stdout, outcome.stdout_dropped),
        "stderr": text(outcome.stderr, outcome.stderr_dropped),
        "limits_hit": list(outcome.usage.limits_hit),
    }


def message(outcome: Outcome) -> str:
    """What a model reads: the value, then what was printed; each named only where there is more than one."""
    shown = {
        "value": "" if outcome.value is None else json.dumps(outcome.value, ensure_ascii=False),
        "stdout": text(outcome.stdout, outcome.stdout_dropped).rstrip("\n"),
        "stderr": text(outcome.stderr, outcome.stderr_dropped).rstrip("\n"),
        "limits hit, and survived": ", ".join(outcome.usage.limits_hit),
    }
    parts = {name: part for name, part in shown.items() if part}
    if list(parts) in (["value"], ["stdout"]):
        return next(iter(parts.values()))
    return "\n".join(f"{name}:\n{part}" for name, part in parts.items()) or "Ran to its end and printed nothing."


def text(stream: bytes, dropped: int) -> str:
    """A captured stream. What was dropped was dropped from its middle (`Limits.capture_bytes`)."""
    decoded = stream.decode("utf-8", "replace")
    return f"{decoded}\n[{dropped:,} bytes were dropped from the middle]" if dropped else decoded
