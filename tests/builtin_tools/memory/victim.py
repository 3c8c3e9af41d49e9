"""A process that inserts and forgets until it is killed. It says what it has done, so that nothing of it may be lost."""

import random
from pathlib import Path
from typing import Any

from builtin_tools.memory.recall import RecallRequest
from builtin_tools.memory.scope import MemoryScope
from builtin_tools.memory.service import FactToAdd
from engine.contract.turn import Turn
from engine.stores.embedder import WordLlamaEmbedder
from tests.builtin_tools.memory.conftest import SetClock, open_memory

ADA = Turn(user="ada")
OTHERS = ("Rome", "Oslo", "Bonn", "Lyon", "Kyiv")


def insert_and_forget(pipe: Any, folder: str, seed: int) -> None:
    """Insert facts, which sometimes close others, search, and forget, telling the pipe after each step."""
    pick = random.Random(seed)
    home = open_memory(Path(folder), SetClock(), WordLlamaEmbedder())
    service = home.service
    pipe.send(("ready", "", ""))
    number = 0
    while True:
        number += 1
        text = f"Person {seed} x{number} lives in {pick.choice(OTHERS)} since {number}."
        pipe.send(("adding", text, ""))
        added = service._add(ADA, FactToAdd(text))
        pipe.send(("added", text, added.entry.id))
        service.recaller.recall(MemoryScope.of(ADA), RecallRequest("Who lives in Rome?"))
        if pick.random() < 0.4:
            with home.store.reading() as memory:
                victim = pick.choice(memory.entries(["user:ada"]))
            pipe.send(("forgetting", victim.text, victim.id))
            service.erasure.erase([victim])
            pipe.send(("forgot", victim.text, victim.id))
