"""Builds the sandbox job of one call of a skill."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from acquired_skills.jobs.box_files import PROGRAM_CALL, PYDANTIC, TYPED_CALL, box_files, entry_file, in_box_modules
from acquired_skills.jobs.environment import preload_for
from acquired_skills.model.program import SkillProgram
from acquired_skills.model.skill import Skill, SkillKind
from sandbox.contract import Call, Destination, InBoxModules, Job, Language, Limits, Mount

PROGRAM_MEMORY = 1280 << 20  # bytes; V8 reserves half of them when it starts
_TEXT = {"type": "string"}


def job_of(skill: Skill, program: SkillProgram, arguments: Mapping[str, Any], workspace: Mount | None = None) -> Job:
    """Return the job for one call of a skill.

    Args:
        program: The files of exactly this version.
        workspace: The folder that the call may read and write, if any.
    """
    if skill.kind is not SkillKind.CODE:
        return replace(
            program_job(
                skill.kind.language,
                skill.name,
                program,
                arguments,
                parameters=skill.parameters,
                returns=skill.returns,
                timeout_s=skill.timeout_s,
            ),
            workspace=workspace,
        )
    return call_job(
        skill.name,
        program,
        arguments,
        plain=skill.plain,
        inferred=skill.inferred,
        imports=skill.imports,
        environment=skill.environment,
        destinations=tuple(map(Destination.parse, skill.destinations)),
        timeout_s=skill.timeout_s,
        workspace=workspace,
    )


def call_job(
    name: str,
    program: SkillProgram,
    arguments: Mapping[str, Any],
    *,
    plain: bool,
    inferred: Mapping[str, str],
    imports: Iterable[str],
    environment: tuple[str, ...],
    timeout_s: float,
    destinations: tuple[Destination, ...] = (),
    workspace: Mount | None = None,
) -> Job:
    """Return the job for one call of Python code, which need not be a skill yet.

    Args:
        plain: Whether the arguments and the result are plain JSON.
        inferred: The inferred type hints of the parameters.
    """
    files = {**program.extra, f"{name}.py": program.code}
    always: tuple[str, ...] = ()
    in_box: InBoxModules | None = None
    call = Call(f"{name}.py", name, arguments)
    if not plain:
        files.update(entry_file(TYPED_CALL))
        in_box = in_box_modules(TYPED_CALL)
        always = PYDANTIC
        call = Call(TYPED_CALL, "call", {"name": name, "arguments": dict(arguments), "inferred": dict(inferred)})
    return Job(
        call=call,
        files=files,
        preload=preload_for(imports, environment, always),
        in_box=in_box,
        egress=destinations,
        requirements=environment,
        workspace=workspace,
        limits=Limits(wall_s=timeout_s, cpu_s=timeout_s),
    )


def program_job(
    language: Language,
    name: str,
    program: SkillProgram,
    arguments: Mapping[str, Any],
    *,
    parameters: Mapping[str, Any],
    returns: Mapping[str, Any] | None,
    timeout_s: float,
) -> Job:
    """Return the job for one call of a Node or Bash program, which need not be a skill yet.

    Args:
        parameters, returns: The schemas of the arguments and of the result.
    """
    given = {**program_interface(language, name, parameters, returns), "arguments": dict(arguments)}
    return Job(
        call=Call(PROGRAM_CALL, "call", given),
        files={**box_files(PROGRAM_CALL), **program_files(language, name, program)},
        limits=Limits(wall_s=timeout_s, cpu_s=timeout_s, memory_bytes=PROGRAM_MEMORY),
    )


def program_files(language: Language, name: str, program: SkillProgram) -> dict[str, bytes]:
    """Return the files of a Node or Bash program by their paths in a box."""
    main = SkillKind.of(language).files(name)[0].rpartition("/")[2]
    return {f"skill/{path}": data for path, data in {**program.extra, main: program.code}.items()}


def program_interface(
    language: Language, name: str, parameters: Mapping[str, Any], returns: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the arguments of `acquired_skills.in_box.program_calls` that describe how to call a program."""
    names = list(parameters.get("properties", {}))
    return {"language": language.value, "name": name, "parameters": names, "text": returns == _TEXT}
