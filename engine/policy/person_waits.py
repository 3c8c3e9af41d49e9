"""`PersonWaits`: tells those who measure the time of a call when one of its inner calls waits for a person."""

import contextlib
from collections.abc import Callable, Iterator

OnWait = Callable[[], contextlib.AbstractContextManager[None]]


class PersonWaits:
    """The waits of one engine. A program's clock stands still while one of its calls waits to be approved."""

    def __init__(self) -> None:
        self._watchers: dict[str, OnWait] = {}  # by the id of the outer call

    @contextlib.contextmanager
    def watched(self, call_id: str, on_wait: OnWait) -> Iterator[None]:
        """Within the block, enter `on_wait()` whenever an inner call of the call waits, until the wait ends."""
        self._watchers[call_id] = on_wait
        try:
            yield
        finally:
            del self._watchers[call_id]

    @contextlib.contextmanager
    def waiting(self, call_id: str) -> Iterator[None]:
        """Mark the block as a wait for a person, on behalf of the call with this id."""
        with contextlib.ExitStack() as stack:
            outer = call_id
            while "/" in outer:  # the id of an inner call begins with that of its outer call
                outer = outer.rpartition("/")[0]
                if outer in self._watchers:
                    stack.enter_context(self._watchers[outer]())
            yield
