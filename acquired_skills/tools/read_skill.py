"""`read_skill`: the tool that reads instructions, which are Agent Skills without a function or tests (SKILL-15).

The description of this tool lists the names and descriptions of the instructions that fit the query of the turn. The
model reads the text of the instructions when it needs it, and then other files by their relative paths. The Agent
Skills format calls this progressive disclosure.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acquired_skills.find.instruction_search import InstructionHit
from acquired_skills.model.skill import SkillDamaged, SkillMissing
from acquired_skills.store.archive import SKILL_FILE, Files
from acquired_skills.store.front_matter import read_front
from acquired_skills.store.instructions import Instructions
from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure
from engine.contract.spec import Annotations, Origin, ToolSpec
from engine.dispatch.refusals import wrong_arguments

NAME = "read_skill"
MOST_OFFERED = 20  # maximum number of instructions in the description of the tool
MOST_CHARACTERS = 300  # maximum number of characters of the description of each
_MOST_NAMED = 50
_PARAMETERS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The name of the instructions, as listed.", "maxLength": 100},
        "file": {
            "type": "string",
            "description": "The relative path of one of the other files, such as `reference/forms.md`. By default, the "
            "instructions themselves are read.",
            "maxLength": 500,
        },
    },
    "required": ["name"],
    "additionalProperties": False,
}
_ABOUT = (
    "Read instructions on how to do a task, before you do it. They are text and files, not tools: follow them with "
    "your other tools."
)


@dataclass(frozen=True, slots=True)
class ReadSkill:
    """The tool `read_skill`. Its description lists some of the instructions, but it can read all of them."""

    instructions: Instructions
    spec: ToolSpec

    async def run(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:  # noqa: ARG002 -- a tool's method
        """Return the text of the instructions, or of one of their files.

        Raises:
            ToolFailure: There are no such instructions, or no such file.
        """
        name, path = arguments["name"], arguments.get("file") or SKILL_FILE
        try:
            files = await asyncio.to_thread(self.instructions.files, name)
            if path == SKILL_FILE:
                return await asyncio.to_thread(_whole, name, files)
        except SkillMissing as error:
            known = ", ".join((await asyncio.to_thread(self.instructions.names))[:_MOST_NAMED])
            raise wrong_arguments(f"{error} Existing instructions: {known or 'none'}.") from None
        except SkillDamaged as error:
            raise ToolFailure(str(error), reason="skill_damaged", may_have_started=False) from error
        if path not in files:
            others = ", ".join(sorted(files)[:_MOST_NAMED])
            raise wrong_arguments(f"{name} has no file {path[:200]!r}. Its files: {others}.")
        try:
            return files[path].decode()
        except UnicodeDecodeError:
            size = f"{len(files[path]):,} bytes"
            return f"{path} is not text ({size}). To open it, run a program with `execute` and skill={name!r}."


def read_skill(instructions: Instructions, offered: Sequence[InstructionHit]) -> ReadSkill:
    """Return the tool for a turn.

    Args:
        offered: The instructions that the description of the tool names, the most important first.
    """
    lines = [f"- {one.name}: {_cut(one.description)}" for one in offered[:MOST_OFFERED]]
    if len(offered) > MOST_OFFERED:
        lines.append(f"- and {len(offered) - MOST_OFFERED} more, which are offered when they fit the request")
    names = ", ".join(one.name for one in offered[:MOST_OFFERED])
    spec = ToolSpec(
        name=NAME,
        description="\n".join([_ABOUT, "", "Instructions:", *lines]),
        short_description=f"Read instructions: {names}."[:MOST_CHARACTERS],
        parameters=_PARAMETERS,
        origin=Origin.ACQUIRED,
        category="skill",
        required_permission="user",
        annotations=Annotations(read_only=True, idempotent=True),
    )
    return ReadSkill(instructions, spec)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"


def _whole(name: str, files: Files) -> Produced[dict[str, Any]]:
    """Return the text of the instructions below the front matter, with the names of the other files.

    Raises:
        SkillDamaged: The front matter is missing or invalid.
    """
    front, text = read_front(files[SKILL_FILE], f"{name}/{SKILL_FILE}")
    others = sorted(path for path in files if path != SKILL_FILE)
    note = (
        f"\n\n---\nOther files of {name}: {', '.join(map(ascii, others))}\nRead one with `{NAME}` and `file`. Run a "
        f"program among them with `execute` and skill={name!r}, filename=…"
        if others
        else ""
    )
    value = {"name": front.name, "text": text, "files": others}
    return Produced(value, f"{text.strip()}{note}")
