"""The actions of `manage_skills` that change the state of a skill: delete, restore, rollback, disable and enable."""

from typing import Literal

from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.skill import SkillState
from acquired_skills.tools.describe import summary
from engine.contract.context import Produced

Change = Literal["delete", "restore", "rollback", "disable", "enable"]


async def change(library: SkillLibrary, action: Change, name: str, version: int | None, by: str) -> Produced:
    match action:
        case "delete":
            skill = await library.delete(name)
            message, effect = f"`{name}` is deleted. Action `restore` brings it back.", "deleted"
        case "restore":
            skill = await library.restore(name)
            message, effect = f"`{name}` version {skill.version} is restored ({skill.state}).", "restored"
        case "rollback":
            skill = await library.rollback(name, version, by)
            message = f"`{name}` is rolled back. The earlier code is now version {skill.version}."
            effect = "rolled_back"
        case "disable":
            skill = await library.set_state(name, SkillState.DISABLED)
            message, effect = f"`{name}` is disabled. It is kept, but not offered until it is enabled.", "disabled"
        case _:
            skill = await library.set_state(name, SkillState.PROBATION)
            message, effect = f"`{name}` is enabled and offered again, on probation.", "enabled"
    return Produced(summary(skill), message, (f"{effect}:skill:{name}",))
