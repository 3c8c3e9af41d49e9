"""The owner of a kernel."""

import json
from typing import Annotated, NamedTuple

from pydantic import Field

from engine.contract.turn import Turn

DEFAULT = "default"
# It becomes a part of file names, so it is nothing but this.
KernelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]


class KernelOwner(NamedTuple):
    """The user and agent that a kernel belongs to. Kernels are never shared between users or agents."""

    user: str
    agent: str

    @classmethod
    def of(cls, turn: Turn) -> "KernelOwner":
        return cls(turn.user, turn.agent)

    @classmethod
    def from_key(cls, key: str) -> "KernelOwner":
        return cls(*json.loads(key))

    @property
    def key(self) -> str:
        """The owner as a string that is unique to it."""
        return json.dumps(self)
