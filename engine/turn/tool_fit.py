"""`ToolFit`: how likely a tool is useful for a request, and the ranking of tools from several sources by that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from math import inf
from operator import itemgetter


@dataclass(frozen=True, slots=True)
class ToolFit:
    """How well a tool fits a request.

    Attributes:
        fit: The probability that the tool is useful for the request, from 0 to 1.
        evidence: The summands of the log-odds of `fit`, by name. Positive ones speak for the tool.
    """

    name: str
    fit: float
    evidence: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RatedTools:
    """The tools that best match a request, best first.

    Attributes:
        least: The least `fit` at which a tool is said to fit.
        gap: What was not searched, and why; "" if everything was searched.
        ranking: Which version of the learned ranking was used, and why; "" for none.
    """

    found: Sequence[ToolFit]
    least: float
    gap: str = ""
    ranking: str = ""

    @property
    def probability(self) -> float:
        """The probability that some tool fits: that of the most probable one; 0 if nothing was found."""
        return max((one.fit for one in self.found), default=0.0)

    @property
    def any_fits(self) -> bool:
        """Whether some tool is likely enough to be useful."""
        return bool(self.found) and self.probability >= self.least


def merged(*ranked: Sequence[ToolFit]) -> list[ToolFit]:
    """Merge rankings by fit, and keep the order within each ranking. A name counts where it comes first."""
    keyed: list[list[tuple[float, ToolFit]]] = []
    for each in ranked:
        least = inf
        keyed.append([(-(least := min(least, one.fit)), one) for one in each])
    names: dict[str, ToolFit] = {}
    for _, one in merge(*keyed, key=itemgetter(0)):
        names.setdefault(one.name, one)
    return list(names.values())
