"""`ClientAccess`: what the client of one request may do, and how its calls run."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from engine.contract.result import ToolResult
from engine.contract.turn import Turn
from engine.interfaces.mcp.progress import ProgressRelay

RunCall = Callable[[str, Mapping[str, Any], ProgressRelay], Coroutine[Any, Any, ToolResult]]


@dataclass(frozen=True, slots=True)
class ClientAccess:
    """The rights of a client.

    Attributes:
        turn: The turn of the client's requests.
        run: Function that calls a tool with arguments and reports its progress.
        owner: Identifies the credential of the client. Questions and files of one owner are hidden from all others.
        asks_user: Whether the client may ask its user to approve calls and to fill in forms.
    """

    turn: Turn
    run: RunCall
    owner: str = ""
    asks_user: bool = True
