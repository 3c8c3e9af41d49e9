"""`execute`: runs code in a fresh box, or a cell in a kernel, with the workspace as the working directory."""

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from acquired_skills.jobs.environment import imports_of, preload_for
from builtin_tools.bridge.recorded_programs import wants_tools
from builtin_tools.bridge.running import cell_calls, run_program, tools_by_default
from builtin_tools.created_files import created_since, files_in
from builtin_tools.kernels.cells import CellOutput, KernelName, run_cell
from builtin_tools.skill_script import skill_script
from builtin_tools.workspace_program import LanguageName, program_of
from engine.contract.context import CallContext, Produced
from engine.contract.spec import RUNS_PROGRAMS, Annotations
from engine.dispatch.outcome import failure_of
from engine.dispatch.refusals import wrong_arguments
from engine.dispatch.render import LARGE_CHARACTERS, is_large
from engine.registry.decorate import tool
from sandbox.contract import Job, Language, Limits, Mount, Outcome
from sandbox.kernels.spec import DEFAULT_NAME

DEADLINE_S = 120.0
MAX_RUN_S = 110  # below the tool's deadline, so that the box ends the run and reports why


class RunOutput(TypedDict):
    """The output of a run in a fresh box.

    Attributes:
        value: The value of the last expression, for Python only.
        calls: A summary of the calls that the program made.
    """

    end: str
    exit_code: int | None
    value: Any
    stdout: str
    stderr: str
    limits_hit: list[str]
    calls: NotRequired[str]


@tool(
    required_permission="user",
    category="execution",
    requires=("sandbox",),
    annotations=Annotations(destructive=True),
    side_effects=("code_execution", "filesystem_write"),
    safety_class="HIGH",
    timeout_s=DEADLINE_S,
    meta={RUNS_PROGRAMS: True},
)
async def execute(
    ctx: CallContext,
    language: Literal["python", "node", "bash"] | None = None,
    code: str = "",
    *,
    filename: str = "",
    skill: str = "",
    args: list[str] | None = None,
    stdin: str = "",
    timeout_s: Annotated[float, Field(gt=0, le=MAX_RUN_S)] = 30.0,
    stateful: bool = False,
    kernel: KernelName = DEFAULT_NAME,
    tools: bool | None = None,
    plan: bool = False,
) -> Produced[RunOutput | CellOutput]:
    """Run Python, Node or Bash code, or a program in your workspace, in an isolated box and return what it printed.

    Use it to compute, to process files and to run programs. To only read, write or search files, use `file_system`.

    Set `language` and `code`, or the `filename` of a program in your workspace with its `args`. The working directory
    is your workspace; files that the program writes there are kept. There is no network, except that a program of
    instructions (`skill`) can connect to the destinations that it declares. In Python, the value of the last expression
    is returned too, so end with the result you want; numpy and pandas can be imported if installed.
    Each call runs in a fresh box: variables and processes are not kept.

    A program can call your other tools: `from knackbox import tools`, then `tools.NAME(argument=value)` returns the
    result (`await tools.NAME(…)` in async code, in Node too; `knackbox-call NAME argument=value` in Bash), and
    `tools.search("what you need")` finds tools. Prefer one program to many calls when calls repeat, or when results are
    only needed to make further calls.

    With stateful=true (Python only), the code runs as a cell of one of your Jupyter kernels instead, which keeps
    variables and imports for your next stateful call. Plots and other rich outputs become files in `outputs/`.

    Args:
        language: The interpreter. With `filename` it may be omitted: the suffix or first line of the file decides.
        code: The whole program, or the cell.
        filename: A program in the workspace to run instead of `code`, such as `scripts/report.py`.
        skill: Name of instructions that `read_skill` reads. `filename` is then a path in their folder.
        args: Command-line arguments for the program.
        stdin: Text that the program reads from standard input. Not allowed with `stateful`.
        timeout_s: Seconds after which the run is killed. A cell is interrupted instead, and its kernel keeps its state.
        stateful: Run the code as a cell of a kernel, which keeps variables between calls.
        kernel: Name of your kernel, for `stateful`. A new name starts a new kernel.
        tools: Whether the code can call tools. By default a cell can, and a program that imports `knackbox`.
        plan: Collect the calls of the program that would change something. A person approves them as one list, and
            they are made after the program has ended, in this order. In the program such a call returns
            `{"planned": number}`.
    """
    if bool(code) == bool(filename):
        problem = "Both `code` and `filename` are set" if code else "`code` is missing"
        raise wrong_arguments(f"{problem}. Set either `code`, or `filename` to run a file in the workspace.")
    if stateful:
        if filename or args or skill or plan:
            raise wrong_arguments(
                "A cell accepts no `filename`, no `skill`, no `args` and no `plan`: omit them, or omit `stateful`."
            )
        if language not in {"python", None}:
            raise wrong_arguments(f"`stateful` is for Python only: omit it to run {language} code.")
        if stdin:
            raise wrong_arguments("A cell has no stdin: put the text in the code, or omit `stateful`.")
        return await run_cell(ctx, code, kernel, timeout_s, cell_calls(ctx, tools))
    script = await skill_script(ctx, skill, filename, language) if skill else None
    if script is not None:
        language, code, source = script.language, script.starter, script.text
    else:
        language, code, source = await _program(ctx, language, code, filename)
    job = Job(
        language=Language(language) if script is None else Language.PYTHON,  # a script is started by Python code
        code=code,
        files={} if script is None else script.files,
        egress=() if script is None else script.block.destinations,
        requirements=() if script is None else script.block.dependencies,
        argv=tuple(args or ()),
        stdin=stdin.encode("utf-8", "surrogatepass"),
        preload=preload_for(imports_of(source)) if language == "python" else (),
        workspace=Mount(ctx.workspace.root),
        limits=Limits(wall_s=timeout_s, cpu_s=timeout_s),
    )
    root = ctx.workspace.root
    before = await asyncio.to_thread(files_in, root)
    by_default = tools is None and not filename and tools_by_default(ctx)
    with_tools = plan or by_default or wants_tools(tools, code, source)
    outcome, made = await run_program(ctx, job, with_tools=with_tools, plan_for=execute.spec if plan else None)
    if not outcome.ok:
        raise failure_of(outcome, filename or f"The {language} code", made)
    created = await asyncio.to_thread(created_since, before, root)
    if is_large(outcome.value) or len(outcome.stdout) + len(outcome.stderr) > LARGE_CHARACTERS:
        return await asyncio.to_thread(_produced, language, outcome, created, made)
    return _produced(language, outcome, created, made)


async def _program(
    ctx: CallContext, language: LanguageName | None, code: str, filename: str
) -> tuple[LanguageName, str, str]:
    """Return the language, the code that the box runs, and the source whose imports the box loads first."""
    if filename:
        program = await asyncio.to_thread(program_of, ctx, filename, language)
        return program.language, program.starter, program.text
    if language is None:
        raise wrong_arguments("`language` is missing: set it to the language of `code`.")
    return language, code, code


def _produced(language: str, outcome: Outcome, created: Sequence[str], made: str) -> Produced[RunOutput]:
    effects = (f"executed:{language}", *(f"created:{path}" for path in created))
    output = result(outcome)
    if made:
        output["calls"] = made
    return Produced(output, "\n".join(filter(None, (message(output), made))), effects)


def result(outcome: Outcome) -> RunOutput:
    """Convert the outcome of a job to the output of the tool, with streams as text."""
    return {
        "end": str(outcome.end),
        "exit_code": outcome.exit_code,
        "value": outcome.value,
        "stdout": text(outcome.stdout, outcome.stdout_dropped),
        "stderr": text(outcome.stderr, outcome.stderr_dropped),
        "limits_hit": list(outcome.usage.limits_hit),
    }


def message(output: RunOutput) -> str:
    """Return the text for the model: the value, stdout and stderr, with headings if more than one is present."""
    shown = {
        "value": "" if output["value"] is None else json.dumps(output["value"], ensure_ascii=False),
        "stdout": output["stdout"].rstrip("\n"),
        "stderr": output["stderr"].rstrip("\n"),
        "limits reached": ", ".join(output["limits_hit"]),
    }
    parts = {name: part for name, part in shown.items() if part}
    if list(parts) in (["value"], ["stdout"]):
        return next(iter(parts.values()))
    return "\n".join(f"{name}:\n{part}" for name, part in parts.items()) or "The run completed and printed nothing."


def text(stream: bytes, dropped: int) -> str:
    """Decode a captured stream.

    Args:
        dropped: The number of bytes that were removed from the middle of the stream (see `Limits.capture_bytes`).
    """
    decoded = stream.decode("utf-8", "replace")
    return f"{decoded}\n[{dropped:,} bytes were dropped from the middle]" if dropped else decoded
