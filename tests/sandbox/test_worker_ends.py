"""The limit that an uncaught exception indicates."""

import pytest

from sandbox.worker import end_of

pytestmark = pytest.mark.spec("BOX-3")


def raised(error: Exception, file: str) -> Exception:
    """Return the exception as raised by code of this file."""
    with pytest.raises(type(error)) as caught:
        exec(compile("raise error", file, "exec"), {"error": error})
    return caught.value


@pytest.mark.parametrize(
    ("error", "file", "end"),
    [
        (MemoryError(), "main.py", "memory"),
        (MemoryError(), "/usr/lib/python3.11/threading.py", "processes"),
        (RuntimeError("can't start new thread"), "/usr/lib/python3.11/threading.py", "processes"),
        (RuntimeError("other"), "/usr/lib/python3.11/threading.py", "error"),
    ],
)
def test_memory_that_is_missing_for_another_thread_is_the_limit_of_threads(
    error: Exception, file: str, end: str
) -> None:
    assert end_of(raised(error, file)) == end
