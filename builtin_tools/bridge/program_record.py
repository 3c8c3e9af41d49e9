"""`ProgramRecord`: the calls that one program has made, and what they were answered.

A program that is run again after an interruption gets the recorded answers. A call is found by its name and arguments
among those not yet repeated, in their order, because calls made at the same time may arrive in another order. As long
as such calls are left, a program that asks for something else is not the same program any more: it is stopped.

A call that may have effects is stored before it is made, and its answer before the program sees it. Calls that only
read are stored together with the next such call, because only then does anything depend on them.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from engine.contract.canonical import digest
from engine.stores.program_store import ProgramStore, StoredCall, StoredProgram

_WAITING_MOST = 200  # calls that only read, after which they are stored


class Diverged(Exception):
    """A program that runs again asks for something that it did not ask for before."""


class ProgramRecord:
    """The record of one program. Without a store, nothing is kept, and nothing can be repeated."""

    def __init__(self, store: ProgramStore | None = None, program: StoredProgram | None = None) -> None:
        """Create the record.

        Args:
            store: Where the calls are stored.
            program: The program, with the calls of its earlier execution.
        """
        self._store = store
        self._program = program
        self._earlier = deque(program.calls if program is not None else ())
        self._position = self._earlier[-1].position if self._earlier else 0
        self._readings: list[float] = []
        self._begun: list[StoredCall] = []
        self._writing = asyncio.Lock()

    @property
    def stored(self) -> bool:
        return self._store is not None

    @property
    def earlier_readings(self) -> Sequence[float]:
        """What the program has read from its clock before."""
        return [reading for call in self._earlier for reading in call.readings]

    def read_clock(self, readings: Sequence[float]) -> None:
        """Note what the program has read from its clock since its last request."""
        if self._store is not None:
            self._readings += readings

    def find(self, name: str, arguments: Mapping[str, Any]) -> StoredCall | None:
        """Return the call if the program made it before, and None if it is new.

        Raises:
            Diverged: The program made other calls before, and did not make this one.
        """
        if not self._earlier:
            return None
        wanted = digest([name, arguments])
        for call in self._earlier:
            if call.digest == wanted:
                self._earlier.remove(call)
                self._readings = []  # they are those of before
                return call
        expected = self._earlier[0]
        raise Diverged(f"call {expected.position} was {expected.name} before, and now it asks for {name}")

    async def begin(self, name: str, arguments: Mapping[str, Any], *, has_effects: bool) -> StoredCall | None:
        """Note a new call before it is made; None if nothing is kept."""
        if self._store is None:
            return None
        self._position += 1
        readings, self._readings = self._readings, []
        call = StoredCall(self._position, name, arguments, digest([name, arguments]), readings)
        self._begun.append(call)
        if has_effects or len(self._begun) >= _WAITING_MOST:
            await self._write()
        return call

    async def answered(self, call: StoredCall | None, answer: Mapping[str, Any], *, has_effects: bool) -> None:
        """Note the answer of a call before the program gets it."""
        if call is None:
            return
        call.answer = answer
        if call not in self._begun:  # it is stored already, without its answer
            await self._write(call)
        elif has_effects:
            await self._write()

    async def forget(self, call: StoredCall | None) -> None:
        """Forget a call that was not made after all, so that the program can make it when it runs again."""
        if call is None or self._store is None or self._program is None:
            return
        if call in self._begun:
            self._begun.remove(call)
        else:
            await asyncio.to_thread(self._store.forget, self._program.id, call.position)

    async def finish(self) -> None:
        """Store what is left."""
        if self._begun:
            await self._write()

    async def _write(self, *answered: StoredCall) -> None:
        if self._store is None or self._program is None:
            return
        async with self._writing:
            begun, self._begun = self._begun, []
            writing = asyncio.ensure_future(asyncio.to_thread(self._store.write, self._program.id, begun, answered))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                # The thread goes on. A program whose box was lost must not begin again before everything is stored.
                await asyncio.wait({writing})
                raise
