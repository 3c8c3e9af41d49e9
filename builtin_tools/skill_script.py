"""Runs a program from the files of instructions (see `read_skill`) in a box.

The box has the packages and destinations that the program declares.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from acquired_skills.find.instruction_search import InstructionSearch
from acquired_skills.jobs.environment import not_allowed
from acquired_skills.lifecycle.approvals import DeclarationRules, approver
from acquired_skills.model.script_block import BlockError, ScriptBlock, read_script_block
from acquired_skills.model.skill import SkillError
from builtin_tools.workspace_program import LanguageName, language_of
from engine.contract.context import CallContext
from engine.contract.failure import FailureClass, ToolFailure, refusal
from engine.dispatch.refusals import wrong_arguments
from engine.policy.approval import ApprovalGuard

_MOST_NAMED = 50
# Python runs the program in its own process, so an exception has a traceback and modules next to the program can be
# imported. In a box, the job's files are in the first folder of the path.
_PYTHON = """\
import os, sys
__file__ = sys.argv[0] = os.path.join(sys.path[0], {path!r})
sys.path.insert(0, os.path.dirname(__file__))
with open(__file__, "rb") as program:
    program = compile(program.read(), __file__, "exec")
exec(program)
"""
_OTHER = """\
import os, subprocess, sys
raise SystemExit(subprocess.run([{interpreter!r}, os.path.join(sys.path[0], {path!r}), *sys.argv[1:]]).returncode)
"""


@dataclass(frozen=True, slots=True)
class SkillScript:
    """A program to run, which belongs to the files of instructions.

    Attributes:
        starter: Python code that starts the program.
        files: All files of the instructions, by path.
    """

    language: LanguageName
    starter: str
    files: Mapping[str, bytes]
    block: ScriptBlock
    text: str


async def skill_script(ctx: CallContext, skill: str, path: str, language: LanguageName | None) -> SkillScript:
    """Read a program from the files of instructions.

    A person is asked to approve the packages that the program declares, as for a new skill.

    Raises:
        ToolFailure: There is no such program, or its packages or destinations are invalid, not allowed or not approved.
    """
    if not path:
        raise wrong_arguments("`filename` is missing: name a program in the folder of `skill`.")
    rules = ctx.need(DeclarationRules)
    try:
        files = await asyncio.to_thread(ctx.need(InstructionSearch).instructions.files, skill)
    except SkillError as error:
        raise wrong_arguments(f"{error} `skill` must be the name of instructions that `read_skill` lists.") from error
    if path not in files:
        others = ", ".join(sorted(files)[:_MOST_NAMED])
        raise wrong_arguments(f"{skill} has no file {path[:200]!r}. Its files: {others}.")
    found = language or language_of(path, files[path])
    text = files[path].decode("utf-8", "replace")
    block = ScriptBlock()
    if found == "python":
        try:
            block = await asyncio.to_thread(read_script_block, text)
        except BlockError as error:
            _refuse(skill, path, str(error))
        if refused := not_allowed(block.destinations, rules.destinations):
            _refuse(skill, path, refused)
        await _approve(ctx, rules, f"{skill}/{path}", block, text)
        return SkillScript(found, _PYTHON.format(path=path), files, block, text)
    return SkillScript(found, _OTHER.format(interpreter=found, path=path), files, block, text)


async def _approve(ctx: CallContext, rules: DeclarationRules, what: str, block: ScriptBlock, text: str) -> None:
    packages, destinations = rules.policy.needing_approval(block)
    if not packages and not destinations:
        return
    guard: ApprovalGuard | None = ctx.services.get(ApprovalGuard)
    ask = approver(guard, ctx.call_id, ctx.turn.user)
    if ask is None:
        raise refusal(
            f"{what} was not run: the program declares {', '.join(packages + destinations)}, which needs a person's "
            "approval, and nobody can be asked here. The operator can allow packages with `packages` of `[skills]` in "
            "config.toml.",
            "not_approved",
            FailureClass.FATAL,
        )
    await ask({"name": what, "packages": packages, "connects_to": destinations, "code": text})


def _refuse(skill: str, path: str, why: str) -> NoReturn:
    raise ToolFailure(f"{skill}/{path} was not run. {why}", reason="script_not_run", may_have_started=False)
