"""The action draft of `manage_skills`: lists functions of imported instructions, and drafts skills from them."""

import asyncio
import json
from typing import Any

from typing_extensions import TypedDict

from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.portable.drafts import SkillDraft
from acquired_skills.portable.script_functions import find_function, script_functions
from engine.contract.context import Produced
from engine.dispatch.refusals import wrong_arguments


class FunctionOutput(TypedDict):
    """One function of a script, as draft lists it if no function was chosen.

    Attributes:
        why_not: Why the function cannot become a skill; "" if it can.
    """

    function: str
    file: str
    why_not: str
    about: str


class DraftOutput(TypedDict):
    """A draft for create_skill.

    Attributes:
        calls: The arguments of calls to write tests for.
    """

    instructions: str
    file: str
    name: str
    description: str
    code: str
    calls: list[dict[str, Any]]


async def draft(library: SkillLibrary, name: str, function: str) -> Produced:
    """List the functions in the scripts of instructions, or return the draft of one of them.

    Raises:
        SkillMissing: There are no instructions with this name.
        SkillDamaged: The instructions cannot be read.
        ToolFailure: The scripts have no such function.
    """
    files = await asyncio.to_thread(library.instructions.files, name)
    functions = await asyncio.to_thread(script_functions, files)
    if not function:
        lines = [
            f"- {each.name} ({each.file}): {(each.why_not and f'not possible, {each.why_not}') or each.about}"
            for each in functions
        ]
        value = [
            {"function": each.name, "file": each.file, "why_not": each.why_not, "about": each.about}
            for each in functions
        ]
        head = f"The scripts of {name} have {len(functions)} functions. To draft a skill from one, name it in `other`:"
        return Produced(value, "\n".join([head, *lines]))
    try:
        found = SkillDraft.of(name, find_function(functions, function))
    except LookupError as error:
        raise wrong_arguments(str(error.args[0])) from None
    calls = "\n".join(f"- {json.dumps(each['arguments'], ensure_ascii=False)}" for each in found.calls)
    message = (
        f"Code of `{found.name}` from {found.file}:\n{found.code}\n"
        "Work out from the description, not by running the code, what these calls return:\n"
        f"{calls or '- none proposed'}\nWrite tests that assert it, and propose both with create_skill and "
        f'drafted_from="{name}/{found.file}".'
    )
    return Produced(found.value(), message)
