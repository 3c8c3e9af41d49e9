"""Groups the calls of a turn into stages. Calls of one stage run concurrently; stages run one after the other."""

from collections.abc import Mapping, Sequence

from engine.contract.result import ToolCall
from engine.contract.spec import ToolSpec

MOST_AT_ONCE = 8  # concurrent calls of one stage; boxes and remote modules have their own limits


def stages(calls: Sequence[ToolCall], specs: Mapping[str, ToolSpec]) -> list[range]:
    """Return the stages as ranges of positions in `calls`. Adjacent read-only or idempotent calls share a stage.

    Args:
        calls: The calls.
        specs: The known tools, by name and alias. A call of an unknown tool has a stage to itself, like a call that may
            change something.
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
