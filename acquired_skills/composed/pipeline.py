"""`Pipeline`: the program of a composed skill: named steps in sequence, each a call, a map over a list, or a branch.

    {"parameters": {...},                                  JSON Schema of its arguments; derived when it is not given
     "steps": [{"name": "fetch", "call": "read_page", "inputs": {"url": {"from": "/arguments/url"}}},
               {"name": "titles", "map": {"from": "/fetch/links"}, "as": "link", "most_items": 20, "at_once": 4,
                "each": {"steps": [...], "output": {...}}},
               {"name": "found", "if": {"less": [0, {"from": "/fetch/count"}]},
                "then": {"steps": [...], "output": {...}}, "else": {...}}],
     "output": {"from": "/titles"}}                        `mapping.py` and `conditions.py` say what may stand there

A step sees the arguments and the steps before it, in its own block and those around it; never those inside of another
block, whose `output` is all that leaves it. What a branch without `else` gives when it does not hold is null.
"""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError

from acquired_skills.composed.conditions import Condition, condition_of
from acquired_skills.composed.mapping import Mapped, NoMapping, mapping_of, strict

MOST_BYTES = 64 << 10
DEEPEST_JSON = 32
MOST_STEPS = 50  # in all blocks together
DEEPEST = 4  # blocks within blocks
MOST_ITEMS = 200  # of one map
MOST_AT_ONCE = 8
ARGUMENTS = "arguments"

_Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")]
_Mapping = Annotated[Any, BeforeValidator(mapping_of)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


class Block(_Model):
    """Steps one after the other, and what they give."""

    steps: list["Step"] = Field(max_length=MOST_STEPS)
    output: _Mapping


class CallStep(_Model):
    """One call of a tool or a skill, by name."""

    name: _Name
    call: str = Field(min_length=1, max_length=200)
    inputs: dict[str, _Mapping] = Field(default_factory=dict, max_length=50)


class MapStep(_Model):
    """A block for each item of a list; what it gives is the list of what they give.

    most_items: a longer list is a failure. at_once: blocks that run side by side.
    """

    name: _Name
    map: _Mapping
    item: _Name = Field(default="item", alias="as")
    each: Block
    most_items: int = Field(default=20, ge=1, le=MOST_ITEMS)
    at_once: int = Field(default=1, ge=1, le=MOST_AT_ONCE)


class BranchStep(_Model):
    """One of two blocks."""

    name: _Name
    condition: Annotated[Any, BeforeValidator(condition_of)] = Field(alias="if")
    then: Block
    otherwise: Block | None = Field(default=None, alias="else")


def _kind(step: Any) -> str:
    if isinstance(step, BaseModel):
        return type(step).__name__
    keys = step.keys() if isinstance(step, dict) else ()
    return "MapStep" if "map" in keys else "BranchStep" if "if" in keys else "CallStep"


Step = Annotated[
    Annotated[CallStep, Tag("CallStep")]
    | Annotated[MapStep, Tag("MapStep")]
    | Annotated[BranchStep, Tag("BranchStep")],
    Discriminator(_kind),
]


class Pipeline(Block):
    """parameters: JSON Schema of the arguments object."""

    parameters: dict[str, Any] | None = None


class BadPipeline(ValueError):
    """What is wrong with a pipeline or its cases, one line for each thing."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def read_pipeline(text: str) -> Pipeline:
    """The pipeline of a JSON text. Raises BadPipeline. Whether its mappings lead somewhere is `checks.py`'s."""
    try:
        pipeline = Pipeline.model_validate(strict(text, MOST_BYTES, DEEPEST_JSON))
    except NoMapping as error:
        raise BadPipeline([f"The pipeline cannot be read: {error}."]) from None
    except ValidationError as error:
        raise BadPipeline(told(error)) from None
    lines = []
    if deepest(pipeline) > DEEPEST:
        lines.append(f"Blocks are nested more than {DEEPEST} deep: make a skill of the inner ones.")
    if (count := sum(1 for _ in steps_of(pipeline))) > MOST_STEPS:
        lines.append(f"There are {count} steps: keep it to {MOST_STEPS}, or make skills of some.")
    if not any(isinstance(step, CallStep) for step in steps_of(pipeline)):
        lines.append("It calls nothing: a pipeline has at least one step with `call`.")
    if lines:
        raise BadPipeline(lines)
    return pipeline


def told(error: ValidationError, most: int = 5) -> list[str]:
    """Where and what, the first of it, in words."""
    lines = []
    for one in error.errors(include_url=False)[:most]:
        where = ".".join(str(part) for part in one["loc"] if part not in ("CallStep", "MapStep", "BranchStep"))
        lines.append(f"`{where or 'it'}`: {one['msg'].removeprefix('Value error, ')}.")
    return lines


def blocks_of(step: CallStep | MapStep | BranchStep) -> list[Block]:
    """The blocks inside of a step."""
    match step:
        case MapStep():
            return [step.each]
        case BranchStep():
            return [step.then, *([step.otherwise] if step.otherwise else [])]
    return []


def steps_of(block: Block) -> Iterator[CallStep | MapStep | BranchStep]:
    """Every step in it and in the blocks within."""
    for step in block.steps:
        yield step
        for inner in blocks_of(step):
            yield from steps_of(inner)


def calls_of(block: Block) -> tuple[str, ...]:
    """Names of what it calls, sorted."""
    return tuple(sorted({step.call for step in steps_of(block) if isinstance(step, CallStep)}))


def deepest(block: Block) -> int:
    """How deep blocks are nested in it."""
    return 1 + max((deepest(inner) for step in block.steps for inner in blocks_of(step)), default=0)


def mapped(value: Any) -> Mapped:
    """For the type checker: what the validators left in a field."""
    found: Mapped = value
    return found


def conditioned(value: Any) -> Condition:
    """The same for a condition."""
    found: Condition = value
    return found
