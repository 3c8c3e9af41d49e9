"""The calls of one turn in stages: those of a stage run at once, and a stage begins when the one before has ended."""

from collections.abc import Mapping, Sequence

from engine.contract.result import ToolCall
from engine.contract.spec import ToolSpec

MOST_AT_ONCE = 8  # of one stage; what a box or a remote module takes at once is bounded by them


def stages(calls: Sequence[ToolCall], specs: Mapping[str, ToolSpec]) -> list[range]:
    """Positions in `calls`, in order. Neighbours that are all read-only or idempotent share a stage.

    specs: by name and alias; a call of a tool that is not in it stands alone, as one that changes something does.
    """
    made: list[range] = []
    joined = False
    for index, call in enumerate(calls):
        side_by_side = _side_by_side(specs.get(call.name))
        if side_by_side and joined and len(made[-1]) < MOST_AT_ONCE:
            made[-1] = range(made[-1].start, index + 1)
        else:
            made.append(range(index, index + 1))
        joined = side_by_side
    return made


def _side_by_side(spec: ToolSpec | None) -> bool:
    return spec is not None and (spec.annotations.read_only or spec.annotations.idempotent)
