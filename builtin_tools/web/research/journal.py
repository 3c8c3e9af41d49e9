"""`ResearchJournal`: what a research has found so far, on disk before anything is done with it.

Each research has a folder with a file of JSON lines and the texts of the pages. After `kill -9` or a cancellation, the
same call finds the folder and continues. A finished research deletes its folder.
"""

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from builtin_tools.web.contract import Page, SearchHit, SearchHits
from engine.stores.atomic import write_atomic
from engine.stores.locks import FileLock

KEPT_S = 7 * 86_400  # an abandoned research is deleted after a week
_LINES = "journal.jsonl"


def research_key(user: str, agent: str, what: str, arguments: Mapping[str, Any]) -> str:
    """Return the name of the folder of a research, which is the same for the same call."""
    text = json.dumps([user, agent, what, arguments], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


class ResearchJournal:
    """The journal of one research. Thread-safe. Its methods write to the disk, so call them in a thread."""

    def __init__(self, folder: Path) -> None:
        """Read the journal, or create an empty one."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self._guard = threading.Lock()
        self._discarded = False
        self.questions: tuple[str, ...] = ()
        self.hits: dict[str, SearchHits] = {}
        self.pages: list[Page] = []
        self.failures: dict[str, str] = {}
        self.answers: dict[str, str] = {}
        self._read()

    @classmethod
    @contextmanager
    def opened(cls, parent: Path, key: str) -> Iterator["ResearchJournal"]:
        """Open the journal of a research for this process and thread alone.

        Raises:
            StoreBusy: The same research is running.
        """
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(parent / f"{key}.lock", patience_s=0).exclusive():
            yield cls(parent / key)

    @property
    def resumed(self) -> bool:
        """Whether there is something from an earlier call."""
        return bool(self.questions or self.hits or self.pages)

    def add_questions(self, questions: tuple[str, ...]) -> None:
        self.questions = questions
        self._append({"kind": "questions", "questions": list(questions)})

    def add_hits(self, query: str, hits: SearchHits) -> None:
        self.hits[query] = hits
        entry = asdict(hits)
        entry["cached_at"] = hits.cached_at.isoformat() if hits.cached_at is not None else None
        self._append({"kind": "hits", "for": query, "hits": entry})

    def add_page(self, page: Page) -> None:
        """Add a page. Its text is on disk before the line that names it."""
        write_atomic(self.folder / f"{page.sha256}.txt", page.text.encode("utf-8"))
        entry = {name: getattr(page, name) for name in _PAGE_FIELDS}
        self._append({"kind": "page", "page": entry | {"fetched_at": page.fetched_at.isoformat()}})
        self.pages.append(page)

    def add_failure(self, url: str, why: str) -> None:
        self.failures[url] = why
        self._append({"kind": "failure", "url": url, "why": why})

    def add_answer(self, prompt: str, answer: str) -> None:
        """Add the model's answer to a prompt."""
        self.answers[prompt_digest(prompt)] = answer
        self._append({"kind": "answer", "prompt": prompt_digest(prompt), "answer": answer})

    def answer(self, prompt: str) -> str | None:
        """Return the answer that the model gave to a prompt; None if it was not asked."""
        return self.answers.get(prompt_digest(prompt))

    def discard(self) -> None:
        """Delete the folder. Later additions are not written."""
        with self._guard:
            self._discarded = True
            shutil.rmtree(self.folder, ignore_errors=True)

    def _append(self, entry: Mapping[str, Any]) -> None:
        line = json.dumps(entry, ensure_ascii=True) + "\n"
        with self._guard:
            if self._discarded:
                return
            with (self.folder / _LINES).open("a", encoding="utf-8") as stream:
                stream.write(line)
                stream.flush()
                os.fsync(stream.fileno())

    def _read(self) -> None:
        path = self.folder / _LINES
        if not path.exists():
            return
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]  # a killed process may leave half a line
        if len(whole) < len(data):
            write_atomic(path, whole)
        for line in whole.decode("utf-8").splitlines():
            self._apply(json.loads(line))

    def _apply(self, entry: dict[str, Any]) -> None:
        match entry["kind"]:
            case "questions":
                self.questions = tuple(entry["questions"])
            case "hits":
                self.hits[entry["for"]] = _hits(entry["hits"])
            case "page":
                page = self._page(entry["page"])
                if page is not None:
                    self.pages.append(page)
            case "failure":
                self.failures[entry["url"]] = entry["why"]
            case "answer":
                self.answers[entry["prompt"]] = entry["answer"]

    def _page(self, entry: dict[str, Any]) -> Page | None:
        """Return a page with its text; None if the text on disk is not the one that was read."""
        try:
            data = (self.folder / f"{entry['sha256']}.txt").read_bytes()
        except FileNotFoundError:
            return None
        if hashlib.sha256(data).hexdigest() != entry["sha256"]:
            return None
        read_at = datetime.fromisoformat(entry["fetched_at"])
        lists = {"page_starts": tuple(entry["page_starts"]), "notes": tuple(entry["notes"])}
        return Page(**(entry | lists | {"fetched_at": read_at}), text=data.decode("utf-8"))


_PAGE_FIELDS = (
    *("url", "final_url", "sha256", "route", "title", "date", "author", "media_type", "page_starts", "notes"),
)


def prompt_digest(prompt: str) -> str:
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()


def remove_abandoned(parent: Path, now: float) -> None:
    """Delete the folders of researches that nobody has continued for `KEPT_S` seconds.

    Args:
        parent: The folder of all journals.
        now: The time in seconds since the epoch.
    """
    for path in parent.glob("*/" + _LINES) if parent.is_dir() else ():
        if path.stat().st_mtime < now - KEPT_S:
            shutil.rmtree(path.parent, ignore_errors=True)


def _hits(entry: dict[str, Any]) -> SearchHits:
    cached = datetime.fromisoformat(entry["cached_at"]) if entry["cached_at"] else None
    return SearchHits(**(entry | {"hits": tuple(SearchHit(**hit) for hit in entry["hits"]), "cached_at": cached}))
