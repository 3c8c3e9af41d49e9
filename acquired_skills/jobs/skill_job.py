"""The sandbox job of one call of a skill."""

from collections.abc import Iterable, Mapping
from typing import Any

from acquired_skills.jobs.box_files import PYDANTIC, TYPED_CALL, box_files
from acquired_skills.jobs.preload import preload_for
from acquired_skills.model.skill import Skill
from sandbox.contract import Call, Destination, Job, Limits, Mount


def job_of(skill: Skill, code: bytes, arguments: Mapping[str, Any], workspace: Mount | None = None) -> Job:
    """Return the job of a call. code: of exactly this version. workspace: the folder it may read and write, if any."""
    return call_job(
        skill.name,
        code,
        arguments,
        plain=skill.plain,
        imports=skill.imports,
        environment=skill.environment,
        destinations=tuple(map(Destination.parse, skill.destinations)),
        timeout_s=skill.timeout_s,
        workspace=workspace,
    )


def call_job(
    name: str,
    code: bytes,
    arguments: Mapping[str, Any],
    *,
    plain: bool,
    imports: Iterable[str],
    environment: tuple[str, ...],
    timeout_s: float,
    destinations: tuple[Destination, ...] = (),
    workspace: Mount | None = None,
) -> Job:
    """Return the job of a call of code that need not be a skill yet. plain: arguments and value are plain JSON."""
    files = {f"{name}.py": code}
    always: tuple[str, ...] = ()
    call = Call(f"{name}.py", name, arguments)
    if not plain:
        files.update(box_files(TYPED_CALL))
        always = PYDANTIC
        call = Call(TYPED_CALL, "call", {"name": name, "arguments": dict(arguments)})
    return Job(
        call=call,
        files=files,
        preload=preload_for(imports, environment, always),
        egress=destinations,
        requirements=environment,
        workspace=workspace,
        limits=Limits(wall_s=timeout_s, cpu_s=timeout_s),
    )
