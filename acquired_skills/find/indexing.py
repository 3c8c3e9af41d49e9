"""`SkillIndexing`: keeps the index of skills up to date with their rows, even when other processes change the rows.

Skills change, and so do the requests for which they were called. The index records the last change that it contains. A
search first indexes newer changes. If there are many, they are indexed in the background instead, and the search uses
the index as it is.
"""

import json
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from acquired_skills.model.skill import Skill
from acquired_skills.store.ledger import Ledger
from acquired_skills.store.past_requests import PastRequests
from engine.retrieval.document import Document, tool_document

if TYPE_CHECKING:
    from engine.retrieval.stored_index import StoredIndex

BATCH = 100  # number of skills in one transaction
Progress = Callable[[int, int], None]  # called with the number of finished items and the total
_Place = tuple[int, str]  # the generation and the skill name of the last indexed change
_START: _Place = (-1, "")


class SkillIndexing:
    """Updates one index. It is thread-safe, and every method blocks."""

    def __init__(self, index: "StoredIndex", ledger: Ledger, past: PastRequests | None, *, use_past: bool) -> None:
        self.index = index
        self._ledger = ledger
        self._past = past
        self._use_past = use_past and past is not None
        self._lock = threading.Lock()
        self._seen: tuple[tuple[int, int], dict[str, str]] | None = None
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Make `catch_up` return after its current batch."""
        self._stopped.set()

    def current(self) -> bool:
        """Return whether neither skills nor the index have changed since the index was last complete.

        This takes microseconds.
        """
        return self._seen == (self._generations(), self._notes())

    def missing(self) -> int:
        """Return the number of changed skills that are not indexed yet."""
        return self._ledger.count_changed(self._place("skills", self._notes()))

    def catch_up(self, most: int | None = None, progress: Progress | None = None) -> bool:
        """Index at most `most` of the skills that changed. Return whether the index is now complete.

        If another process is already indexing, or replaces the index meanwhile, this returns without waiting for it.
        """
        with self._lock:
            if self.index.note("rows") != self._of_rows():
                self.index.clear()
            done, total = 0, self._ledger.count_changed(self._place("skills", self._notes())) if progress else 0
            while not self._stopped.is_set():
                now, before = self._generations(), self._notes()
                rows = self._ledger.changed(self._place("skills", before), BATCH)
                requests = self._requests_after(before) if not rows else []
                if not rows and not requests:
                    self._seen = (now, before)
                    return True
                if most is not None and done >= most:
                    return False
                skills = {row.name: row.skill for row in rows}
                if requests:
                    found = self._ledger.find([name for _, name in requests])
                    skills |= {name: row.skill for name, row in found.items()}
                notes = {"rows": self._of_rows()}
                if rows:
                    notes["skills"] = json.dumps([rows[-1].generation, rows[-1].name])
                if requests:
                    notes["requests"] = json.dumps(requests[-1])
                if not self.index.apply(self.documents(skills), notes, after=before):
                    return False
                done += len(skills)
                if progress is not None:
                    progress(done, max(done, total))
            return False

    def documents(self, skills: Mapping[str, Skill | None]) -> dict[str, Document | None]:
        """Return the searchable data of each skill, or None for a skill that is not listed."""
        listed = {name: skill for name, skill in skills.items() if skill is not None and skill.state.listed}
        requests = self._past.of(listed) if self._past is not None and self._use_past else {}
        return {
            name: document(skill, requests.get(name, ())) if (skill := listed.get(name)) is not None else None
            for name in skills
        }

    def _of_rows(self) -> str:
        return f"{self._ledger.identity()}:{'with' if self._use_past else 'without'} requests"

    def _requests_after(self, notes: Mapping[str, str]) -> list[_Place]:
        if self._past is None or not self._use_past:
            return []
        return self._past.changed_next(self._place("requests", notes), BATCH)

    def _notes(self) -> dict[str, str]:
        return self.index.notes("rows", "skills", "requests")

    def _place(self, of: str, notes: Mapping[str, str]) -> _Place:
        if notes["rows"] != self._of_rows():
            return _START
        generation, name = json.loads(notes[of]) if notes[of] else _START
        return int(generation), str(name)

    def _generations(self) -> tuple[int, int]:
        return self._ledger.generation(), self._past.generation() if self._past is not None else 0


def document(skill: Skill, requests: tuple[str, ...] = ()) -> Document:
    """Return the searchable text of a skill.

    The text consists of its name, its description, its parameters, the example requests of its author, and the requests
    for which it was called successfully.
    """
    examples = tuple(dict.fromkeys((*skill.examples, *requests)))
    return tool_document(skill.name, skill.description, skill.parameters, examples)
