"""`ComposedPipeline`: the program of a composed skill, a sequence of named steps.

A step is a call, a map over a list, or a branch:

    {"parameters": {...},                                  JSON Schema of its arguments; derived if missing
     "steps": [{"name": "fetch", "call": "read_page", "inputs": {"url": {"from": "/arguments/url"}}},
               {"name": "titles", "map": {"from": "/fetch/links"}, "as": "link", "most_items": 20, "at_once": 4,
                "each": {"steps": [...], "output": {...}}},
               {"name": "found", "if": {"less": [0, {"from": "/fetch/count"}]},
                "then": {"steps": [...], "output": {...}}, "else": {...}}],
     "output": {"from": "/titles"}}                        see `mapping.py` and `conditions.py`

A step can refer to the arguments and to the earlier steps of its own block and of the enclosing blocks. It cannot refer
to steps inside another block, only to the `output` of the block. If the condition of a branch does not hold and the
branch has no `else`, its output is null.
"""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError

from acquired_skills.composed.conditions import Condition, condition_of
from acquired_skills.composed.mapping import InvalidMapping, Mapped, mapping_of, read_bounded_json

MOST_BYTES = 64 << 10
DEEPEST_JSON = 32
MOST_STEPS = 50  # maximum number of steps in all blocks together
DEEPEST = 4  # maximum number of levels of nested blocks
MOST_ITEMS = 200  # maximum number of items of one map
MOST_AT_ONCE = 8
ARGUMENTS = "arguments"

_Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")]
_Mapping = Annotated[Any, BeforeValidator(mapping_of)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


class Block(_Model):
    """A sequence of steps and their output."""

    steps: list["Step"] = Field(max_length=MOST_STEPS)
    output: _Mapping


class CallStep(_Model):
    """A call of a tool or skill by name."""

    name: _Name
    call: str = Field(min_length=1, max_length=200)
    inputs: dict[str, _Mapping] = Field(default_factory=dict, max_length=50)


class MapStep(_Model):
    """Runs a block for each item of a list. Its output is the list of the blocks' outputs.

    Attributes:
        most_items: The maximum length of the list. The step fails if the list is longer.
        at_once: The number of blocks that run concurrently.
    """

    name: _Name
    map: _Mapping
    item: _Name = Field(default="item", alias="as")
    each: Block
    most_items: int = Field(default=20, ge=1, le=MOST_ITEMS)
    at_once: int = Field(default=1, ge=1, le=MOST_AT_ONCE)


class BranchStep(_Model):
    """Runs one of two blocks, depending on a condition."""

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


class ComposedPipeline(Block):
    """The program of a composed skill.

    Attributes:
        parameters: JSON Schema of the arguments object.
    """

    parameters: dict[str, Any] | None = None


class InvalidPipeline(ValueError):
    """A pipeline or a list of cases is invalid. `lines` has one line for each problem."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def read_pipeline(text: str) -> ComposedPipeline:
    """Parse a pipeline from JSON text. `acquired_skills.composed.checks` checks its references.

    Raises:
        InvalidPipeline: The text is not a valid pipeline.
    """
    try:
        pipeline = ComposedPipeline.model_validate(read_bounded_json(text, MOST_BYTES, DEEPEST_JSON))
    except InvalidMapping as error:
        raise InvalidPipeline([f"The pipeline cannot be read: {error}."]) from None
    except ValidationError as error:
        raise InvalidPipeline(validation_messages(error)) from None
    lines = []
    if deepest(pipeline) > DEEPEST:
        lines.append(f"Blocks are nested more than {DEEPEST} levels deep. Make a separate skill of the inner blocks.")
    if (count := sum(1 for _ in steps_of(pipeline))) > MOST_STEPS:
        lines.append(f"There are {count} steps. Use at most {MOST_STEPS}, or move some into separate skills.")
    if not any(isinstance(step, CallStep) for step in steps_of(pipeline)):
        lines.append("The pipeline calls nothing. Add at least one step with `call`.")
    if lines:
        raise InvalidPipeline(lines)
    return pipeline


def validation_messages(error: ValidationError, most: int = 5) -> list[str]:
    """Format the first validation errors, each with its location and message."""
    lines = []
    for one in error.errors(include_url=False)[:most]:
        where = ".".join(str(part) for part in one["loc"] if part not in ("CallStep", "MapStep", "BranchStep"))
        lines.append(f"`{where or 'the whole text'}`: {one['msg'].removeprefix('Value error, ')}.")
    return lines


def blocks_of(step: CallStep | MapStep | BranchStep) -> list[Block]:
    """Return the blocks inside a step."""
    match step:
        case MapStep():
            return [step.each]
        case BranchStep():
            return [step.then, *([step.otherwise] if step.otherwise else [])]
    return []


def steps_of(block: Block) -> Iterator[CallStep | MapStep | BranchStep]:
    """Yield every step of a block and of the blocks inside it."""
    for step in block.steps:
        yield step
        for inner in blocks_of(step):
            yield from steps_of(inner)


def calls_of(block: Block) -> tuple[str, ...]:
    """Return the names of the tools that a block calls, sorted."""
    return tuple(sorted({step.call for step in steps_of(block) if isinstance(step, CallStep)}))


def deepest(block: Block) -> int:
    """Return the number of levels of nested blocks in a block."""
    return 1 + max((deepest(inner) for step in block.steps for inner in blocks_of(step)), default=0)


def mapped(value: Any) -> Mapped:
    """Cast the value of a mapping field to the type that it has after validation."""
    found: Mapped = value
    return found


def conditioned(value: Any) -> Condition:
    """Cast the value of a condition field to the type that it has after validation."""
    found: Condition = value
    return found
