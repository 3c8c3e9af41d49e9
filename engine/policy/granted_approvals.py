"""`GrantedApprovals`: inner calls that a person has approved together with others, in one list."""


class GrantedApprovals:
    """The approved calls of one engine, by the ids of the calls, which only the engine chooses.

    Each is valid for the one call that is made with this id at once, so its arguments cannot differ.
    """

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def grant(self, call_id: str) -> None:
        """Let the call of this id pass without a further question."""
        self._ids.add(call_id)

    def withdraw(self, call_id: str) -> None:
        """Forget the approval, if there is one."""
        self._ids.discard(call_id)

    def use(self, call_id: str) -> bool:
        """Return whether the call of this id is approved, and forget it."""
        if call_id in self._ids:
            self._ids.remove(call_id)
            return True
        return False
