"""`RepeatableCalls`: knows calls that can safely be made again, although they were interrupted and have effects."""

from collections.abc import Mapping
from typing import Any, Protocol


class RepeatableCalls(Protocol):
    """The calls that a pack has on record. It provides itself under this class (`Pack.provides`)."""

    async def can_repeat(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> bool:
        """Return whether the call may be made again with the same id: it repeats none of its effects."""
        ...
