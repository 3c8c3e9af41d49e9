"""A program's record is complete before the program can run again."""

import asyncio
import threading
from typing import Any

import pytest

from builtin_tools.bridge.program_record import ProgramRecord
from engine.stores.program_store import StoredProgram


class SlowStore:
    """Stands for a store whose disk is slow: a write ends when the test says so."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.written: list[str] = []

    def write(self, _program: str, begun: Any, _answered: Any) -> None:
        self.begun.set()
        assert self.may_end.wait(30)
        self.written += [call.name for call in begun]


@pytest.mark.spec("CODE-4")
async def test_a_cancelled_call_ends_only_when_its_write_has_ended() -> None:
    store = SlowStore()
    record = ProgramRecord(store, StoredProgram("p", "seed"))  # type: ignore[arg-type]
    call = asyncio.create_task(record.begin("pay", {"n": 1}, has_effects=True))
    await asyncio.to_thread(store.begun.wait, 30)
    call.cancel()
    done, _ = await asyncio.wait({call}, timeout=0.1)
    assert not done
    store.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert store.written == ["pay"]
