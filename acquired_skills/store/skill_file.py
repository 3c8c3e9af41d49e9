"""Writes and reads `SKILL.md` in the open Agent Skills format (https://agentskills.io/specification).

The format has `name` (with hyphens), `description`, and a string-to-string `metadata`. All of Knackbox's fields are in
`metadata`, with structured values as JSON, so the file is valid for every other reader.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from acquired_skills.model.effects import Effects
from acquired_skills.model.names import EXTRA_PATH, MOST_EXTRA, folder_name, skill_name
from acquired_skills.model.proposal import MAX_TIMEOUT_S
from acquired_skills.model.skill import HINT, NotAdmitted, Skill, SkillDamaged, SkillKind, SkillState
from acquired_skills.model.skill_schemas import why_unusable_input, why_unusable_output
from acquired_skills.store.front_matter import dump_front, first_of, read_front
from sandbox.contract import Destination

PREFIX = "knackbox-"
MOST_VERSION = 10**9  # largest version number; integers in the records are limited in size


def _from_json(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _destination(text: str) -> str:
    return str(Destination.parse(text))


def _extra_path(text: str) -> str:
    if not EXTRA_PATH.fullmatch(text):
        raise ValueError("it is not the path of an extra file")
    return text


_ExtraPath = Annotated[str, AfterValidator(_extra_path)]
_Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Line = Annotated[str, Field(max_length=1000)]
_Called = Annotated[str, Field(min_length=1, max_length=200)]


class _Ours(BaseModel):
    """Knackbox's metadata fields, without the prefix of their names."""

    model_config = ConfigDict(extra="ignore", defer_build=True)  # takes 80 ms, and not every engine reads skills

    version: int = Field(ge=1, lt=MOST_VERSION)
    state: SkillState
    created: str
    call: Literal["plain", "typed"]
    timeout: float = Field(gt=0, le=MAX_TIMEOUT_S)
    imports: Annotated[tuple[str, ...], BeforeValidator(_from_json)]
    examples: Annotated[tuple[str, ...], BeforeValidator(_from_json)]
    dependencies: Annotated[tuple[str, ...], BeforeValidator(_from_json)] = ()
    destinations: Annotated[tuple[Annotated[str, AfterValidator(_destination)], ...], BeforeValidator(_from_json)] = ()
    environment: Annotated[tuple[str, ...], BeforeValidator(_from_json)] = ()
    parameters: Annotated[dict[str, Any], BeforeValidator(_from_json)]
    tests: int = Field(ge=1, lt=MOST_VERSION)
    code_sha256: _Sha256 = Field(alias="code-sha256")
    tests_sha256: _Sha256 = Field(alias="tests-sha256")
    admission: Annotated[dict[str, Any], BeforeValidator(_from_json)]
    provenance: Annotated[dict[str, _Line], BeforeValidator(_from_json), Field(max_length=20)] = {}
    kind: SkillKind = SkillKind.CODE
    calls: Annotated[tuple[_Called, ...], BeforeValidator(_from_json), Field(max_length=100)] = ()
    effects: Annotated[Effects | None, BeforeValidator(_from_json)] = None
    returns: Annotated[dict[str, Any] | None, BeforeValidator(_from_json)] = None
    inferred: Annotated[dict[str, Annotated[str, Field(pattern=f"^{HINT}$")]], BeforeValidator(_from_json)] = {}
    extra: Annotated[dict[_ExtraPath, _Sha256], BeforeValidator(_from_json), Field(max_length=MOST_EXTRA)] = {}


_OURS = TypeAdapter(_Ours)


def render(skill: Skill) -> bytes:
    """Return the content of the `SKILL.md` of a skill."""
    metadata = {
        "version": str(skill.version),
        "state": skill.state.value,
        "created": skill.created,
        "call": "plain" if skill.plain else "typed",
        "timeout": json.dumps(skill.timeout_s),
        "imports": json.dumps(skill.imports),
        "examples": json.dumps(skill.examples),
        "dependencies": json.dumps(skill.dependencies),
        "destinations": json.dumps(skill.destinations),
        "environment": json.dumps(skill.environment),
        "parameters": json.dumps(skill.parameters),
        "tests": str(skill.tests),
        "code-sha256": skill.code_sha256,
        "tests-sha256": skill.tests_sha256,
        "admission": json.dumps(skill.admission),
        "provenance": json.dumps(skill.provenance),
    }
    if skill.returns is not None:
        metadata["returns"] = json.dumps(skill.returns)
    if skill.inferred:
        metadata["inferred"] = json.dumps(skill.inferred)
    if skill.extra:
        metadata["extra"] = json.dumps(skill.extra)
    if skill.kind is not SkillKind.CODE:
        metadata["kind"] = skill.kind.value
    if skill.kind is SkillKind.COMPOSED or skill.calls:
        metadata["calls"] = json.dumps(skill.calls)
    if skill.kind is SkillKind.COMPOSED:
        metadata["effects"] = json.dumps(skill.effects)
    front = {
        "name": folder_name(skill.name),
        "description": skill.description,
        "metadata": {PREFIX + key: value for key, value in metadata.items()},
    }
    return f"---\n{dump_front(front)}---\n\n{_body(skill)}".encode()


def parse(data: bytes, where: str) -> Skill:
    """Parse the content of a `SKILL.md`.

    Raises:
        SkillDamaged: The file is invalid. The message says where, and what is wrong.
        NotAdmitted: The file has none of Knackbox's metadata.
    """
    front, _ = read_front(data, where)
    ours = {key.removeprefix(PREFIX): value for key, value in front.metadata.items() if key.startswith(PREFIX)}
    if not ours:
        raise NotAdmitted(
            f"{where} is an Agent Skill that was not admitted here, so it is not offered. To admit it, import it with "
            "`knackbox skills import`."
        )
    try:
        read = _OURS.validate_python(ours)
    except ValidationError as error:
        raise SkillDamaged(f"{where}: metadata {first_of(error, PREFIX)}") from None
    if unusable := why_unusable_input(read.parameters):
        raise SkillDamaged(f"{where}: metadata {PREFIX}parameters: {unusable}.")
    if read.returns is not None and (unusable := why_unusable_output(read.returns)):
        raise SkillDamaged(f"{where}: metadata {PREFIX}returns: {unusable}.")
    return Skill(
        name=skill_name(front.name),
        version=read.version,
        state=read.state,
        description=front.description,
        parameters=read.parameters,
        plain=read.call == "plain",
        imports=read.imports,
        created=read.created,
        code_sha256=read.code_sha256,
        tests_sha256=read.tests_sha256,
        tests=read.tests,
        examples=read.examples,
        dependencies=read.dependencies,
        destinations=read.destinations,
        environment=read.environment,
        timeout_s=read.timeout,
        admission=read.admission,
        provenance=read.provenance,
        kind=read.kind,
        calls=read.calls,
        effects=read.effects.model_dump(mode="json") if read.effects else {},
        returns=read.returns,
        inferred=read.inferred,
        extra=read.extra,
    )


def _body(skill: Skill) -> str:
    """Return the text below the front matter, for people and for agents that read skills instead of calling them."""
    lines = [f"# {skill.name}", "", skill.description, "", "## Use", ""]
    program, tests = skill.files
    lines += [f"Call `{skill.name}` of `{program}`; it takes:", ""]
    required = skill.parameters.get("required", [])
    properties: Mapping[str, Any] = skill.parameters.get("properties", {})
    for name, schema in properties.items():
        kind = schema.get("type") or "see the signature"
        need = "" if name in required else ", optional"
        lines.append(f"- `{name}` ({kind}{need}) {schema.get('description', '')}".rstrip())
    if not properties:
        lines.append("- nothing")
    if skill.extra:
        lines += ["", "## Further files", "", *(f"- `{path}`" for path in skill.extra_paths.values())]
    needs = [f"- the package `{each}`" for each in skill.dependencies]
    needs += [f"- a connection to `{each}`" for each in skill.destinations]
    needs += [f"- the tool `{each}`" for each in skill.calls]
    if needs:
        lines += ["", "## Needs", "", *needs]
    if skill.examples:
        lines += ["", "## Requests it answers", "", *(f"- {' '.join(example.split())}" for example in skill.examples)]
    lines += [
        "",
        "## Proof",
        "",
        f"The {skill.tests} test{'' if skill.tests == 1 else 's'} in `{tests}` passed when the skill was admitted.",
        "",
    ]
    return "\n".join(lines)
