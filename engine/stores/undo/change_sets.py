"""The types of the record of changes: who changed a workspace, and what."""

from dataclasses import dataclass

from engine.stores.undo.scan import StateChange


@dataclass(frozen=True, slots=True)
class ChangingCall:
    """A call that may change a workspace.

    Attributes:
        call_id: The id of the call. An inner call's id begins with that of its outer call and a slash.
        run: The run of the loop that the call belongs to; "" for none.
        ts: Its start, UTC, ISO 8601.
        programs: Whether programs run during the call, so that everything that changes meanwhile counts as its change.
            Otherwise only the paths that it has written through the workspace object count.
    """

    call_id: str
    tool: str
    run: str
    user: str
    agent: str
    ts: str
    programs: bool

    def includes(self, other: "ChangingCall") -> bool:
        """Return whether the other call is this one, or an inner call of it."""
        return other.call_id == self.call_id or other.call_id.startswith(f"{self.call_id}/")


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Changes that were made between two scans by the same calls, or by an undo.

    Attributes:
        number: Increases with time.
        workspace: The root folder of the workspace.
        calls: The calls that may have made the changes. Empty for an undo.
        undone: What an undo has undone: the id of a run, a call or another undo; "" for changes of calls.
        doubt: Why others may have made some of the changes; "" if the calls made them.
        complete: False while an undo is at work, or after it was killed.
    """

    number: int
    workspace: str
    ts: str
    calls: tuple[ChangingCall, ...]
    undone: str
    doubt: str
    complete: bool
    changes: tuple[StateChange, ...]

    @property
    def undo_id(self) -> str:
        """The id by which this undo can itself be undone; "" for changes of calls."""
        return f"undo-{self.number}" if self.undone else ""
