"""The job that one call of a skill's code is for the sandbox."""

from collections.abc import Mapping
from typing import Any

from acquired_skills.in_box.files import PYDANTIC, TYPED_CALL, box_files
from acquired_skills.preload import preload_for
from acquired_skills.skill import Skill
from sandbox.contract import Call, Destination, Job, Limits, Mount


def job_of(skill: Skill, code: bytes, arguments: Mapping[str, Any], workspace: Mount | None = None) -> Job:
    """code: of exactly this version. workspace: what it may read and write; None for nothing."""
    files = {f"{skill.name}.py": code}
    always: tuple[str, ...] = ()
    call = Call(f"{skill.name}.py", skill.name, arguments)
    if not skill.plain:
        files.update(box_files(TYPED_CALL))
        always = PYDANTIC
        call = Call(TYPED_CALL, "call", {"name": skill.name, "arguments": dict(arguments)})
    return Job(
        call=call,
        files=files,
        preload=preload_for(skill.imports, skill.environment, always),
        egress=tuple(map(Destination.parse, skill.destinations)),
        requirements=skill.environment,
        workspace=workspace,
        limits=Limits(wall_s=skill.timeout_s, cpu_s=skill.timeout_s),
    )
