"""`ToolRequests`: remembers the requests for which tools succeeded, so that similar requests find these tools."""

from collections.abc import Collection, Mapping
from typing import Protocol


class ToolRequests(Protocol):
    """Stores requests by the names of tools. A pack that can do so provides itself under this class (`Pack.provides`).

    The requests are used for ranking only, and never shown.
    """

    def note(self, tool: str, request: str, user: str = "") -> None:
        """Record that a tool succeeded for a request of a user.

        It is called in the event loop, so it must be fast. An empty request is ignored.
        """
        ...

    def generation(self) -> int:
        """Return a number that changes whenever the stored requests change. This may block briefly."""
        ...

    def of(self, names: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """Return the requests of these tools, oldest first. Tools without requests are omitted. This blocks."""
        ...
