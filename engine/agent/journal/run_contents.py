"""`RunContents`: finds and reads in the journal what was moved out of the prompts of runs (LOOP-6).

The journal keeps everything that a run has said and seen, so nothing is copied when content is moved out.
A search compares words. This module does not load the model client.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from engine.contract.moved_content import MESSAGE, RESULT, ContentPiece
from engine.contract.turn import Turn
from engine.stores.run_inbox import PERSON
from engine.stores.run_journal import NAME_CHARACTERS, RunJournal, RunRow, UnknownRun

PASSAGE = 600  # characters; a longer text is searched in passages, which overlap by a quarter
ASKED = "message of the user"
_REPEATING = frozenset({"recall"})  # tools whose results repeat what is elsewhere


class RunContents:
    """Implements `engine.contract.moved_content.MovedContent` with the journal of runs. Every method blocks."""

    def __init__(self, journal: RunJournal) -> None:
        self._journal = journal

    def search(self, turn: Turn, query: str, limit: int) -> list[ContentPiece]:
        """Return the passages of moved content that share the rarest words with a query, best first.

        Of each message or result at most one passage is returned.
        """
        # Loads numpy and the stemmer, which a process that never searches does not need.
        from engine.retrieval.bm25 import Bm25  # noqa: PLC0415 -- for the reason above
        from engine.retrieval.document import Field  # noqa: PLC0415 -- for the same reason

        passages: list[ContentPiece] = []
        index = Bm25()
        for piece in self._moved(turn):
            for start in range(0, max(len(piece.text), 1), PASSAGE * 3 // 4):
                text = piece.text[start : start + PASSAGE]
                index.add(f"{len(passages):08}", [Field(f"{piece.what} {text}", usual=60.0)])
                passages.append(replace(piece, text=text, start=start))
                if start + PASSAGE >= len(piece.text):
                    break
        best: dict[str, ContentPiece] = {}
        for number, _ in index.search(query, 4 * limit):
            found = passages[int(number)]
            best.setdefault(found.handle, found)
        return list(best.values())[:limit]

    def read(self, turn: Turn, handle: str, start: int, characters: int) -> ContentPiece | None:
        """Return a part of a message or result of the turn's conversation; None if there is none with this handle."""
        for row in self._conversation(turn):
            for _, piece in _pieces(row.id, self._entries(row)):
                if piece.handle == handle:
                    return replace(piece, text=piece.text[start : start + characters], start=start)
        return None

    def _moved(self, turn: Turn) -> Iterator[ContentPiece]:
        """Yield what was moved out of the prompt of a turn's conversation, oldest first."""
        conversation = [(row.id, self._entries(row)) for row in self._conversation(turn)]
        compacted = [entry for _, entries in conversation for _, entry in entries if entry["kind"] == "compacted"]
        shortened = {each["handle"] for entry in compacted for each in entry["shortened"]}
        left = sum(entry["responses"] for entry in compacted)  # responses that were moved out
        for run, entries in conversation:
            for responses, piece in _pieces(run, entries):
                current = run == turn.run and piece.what == ASKED  # it is still in the prompt
                if piece.handle in shortened or (left > 0 and responses <= left and not current):
                    yield piece
            left -= sum(entry["kind"] == "response" for _, entry in entries)

    def _conversation(self, turn: Turn) -> list[RunRow]:
        """Return the runs of a turn's conversation that belong to its user and agent, oldest first."""
        chain: list[RunRow] = []
        run = turn.run
        while run:
            try:
                row = self._journal.one(run)
            except UnknownRun:
                break
            if row.user != turn.user[:NAME_CHARACTERS] or row.agent != turn.agent[:NAME_CHARACTERS]:
                break
            chain.append(row)
            run = row.previous
        return chain[::-1]

    def _entries(self, row: RunRow) -> list[tuple[int, dict[str, Any]]]:
        return [(each.seq, json.loads(each.entry)) for each in self._journal.entries(row.id)]


def _pieces(run: str, entries: list[tuple[int, dict[str, Any]]]) -> Iterator[tuple[int, ContentPiece]]:
    """Yield the messages and results of a run, each with the number of responses of the run up to it."""
    responses = 0
    names: list[str] = []
    for seq, entry in entries:
        handle = f"{MESSAGE}{run}/{seq}"
        match entry["kind"]:
            case "begun":
                yield responses, _piece(handle, ASKED, entry["message"])
            case "message" if entry["about"] == "person":
                yield responses, _piece(handle, ASKED, entry["text"])
            case "delivered" if entry["sender"] == PERSON and not entry["stop"]:
                yield responses, _piece(handle, ASKED, entry["text"])
            case "response":
                responses += 1
                names = [call["name"] for call in entry["calls"]]
                text = "\n".join(_said(entry["response"]["parts"]))
                if text and not _REPEATING.issuperset(names or [""]):
                    yield responses, _piece(handle, "response of the assistant", text)
            case "result" if names[entry["call"]] not in _REPEATING:
                result = entry["result"]
                call_id = (result.get("audit") or {}).get("call_id")
                text = (result["message"] or "") if result["success"] else (result["error"] or result["message"] or "")
                what = f"result of {names[entry['call']]}"
                yield responses, _piece(f"{RESULT}{call_id}" if call_id else handle, what, text)


def _said(parts: list[dict[str, Any]]) -> Iterator[str]:
    for part in parts:
        if part["part_kind"] == "text":
            yield part["content"]
        elif part["part_kind"] == "tool-call":
            given = part["args"]
            yield f"{part['tool_name']} {given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)}"


def _piece(handle: str, what: str, text: str) -> ContentPiece:
    return ContentPiece(handle, what, text, len(text))
