"""Evidence recall: the share of a question's evidence that is found, by turn and by session, per category."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from rich.console import Console
from rich.progress import track

from bench.memory.locomo import CATEGORIES, LocomoConversation, LocomoQuestion
from bench.memory.methods import ENCODED, OURS, FoundTurns, PlainWords, SearchTurns, by_meaning, by_words, ours
from bench.retrieval.figures import auroc
from bench.table import show
from engine.retrieval.background import background_lines
from engine.retrieval.passage_encoder import PassageEncoder
from engine.retrieval.terms import Terms
from engine.stores.embedder import Embedder

TURNS, SESSIONS = 10, 5  # the results that count
FIT = {OURS: "fit", ENCODED: "fit with the encoder"}  # the names of the measurements
OVERALL = "overall"
OFFERED = 0.15  # a result with a smaller fit does not count as offered
_FOREIGN = 40  # questions of each other conversation that are asked of a memory

Answered = Sequence[tuple[LocomoQuestion, FoundTurns]]


def bench(
    conversations: Sequence[LocomoConversation],
    embedder: Embedder,
    console: Console,
    encoder: PassageEncoder | None = None,
) -> list[dict[str, Any]]:
    """Measure, print tables, and return their rows."""
    answered: dict[str, list[tuple[LocomoQuestion, FoundTurns]]] = {}
    searched = [OURS] if encoder is None else [OURS, ENCODED]
    fits: dict[str, dict[str, list[float]]] = {
        way: {"its own questions": [], "those of others": [], "small talk": []} for way in searched
    }
    for memory in track(conversations, "recall", console=console, transient=True):
        with ExitStack() as stack:
            searches = {OURS: stack.enter_context(ours(memory.passages, embedder))}
            if encoder is not None:
                searches[ENCODED] = stack.enter_context(ours(memory.passages, embedder, encoder))
            ways: dict[str, SearchTurns] = {
                "BM25": by_words(memory.passages, PlainWords()),
                "BM25, stems": by_words(memory.passages, Terms()),
                "meaning": by_meaning(memory.passages, embedder),
                **searches,
            }
            for way, find in ways.items():
                answered.setdefault(way, []).extend((one, find(one.text)) for one in memory.questions)
            foreign = [one for other in conversations if other is not memory for one in _some(other.questions)]
            for way, search in searches.items():
                fits[way]["those of others"] += [search(one.text).fit for one in foreign]
                fits[way]["small talk"] += [search(line).fit for line in background_lines()]
    rows = [*_rows(f"turns@{TURNS}", answered), *_rows(f"sessions@{SESSIONS}", answered)]
    for way in searched:
        asked = [found for one, found in answered[way] if CATEGORIES[one.category] != "adversarial"]
        fits[way]["its own questions"] = [found.fit for found in asked]
        rows += _fit_rows(FIT[way], fits[way])
    for what in (f"turns@{TURNS}", f"sessions@{SESSIONS}"):
        show(console, rows, what, f"Evidence recall, {what}", OVERALL, *CATEGORIES.values(), ratio="to BM25")
    for way in searched:
        title = f"Questions with a result whose fit is at least {OFFERED}, {way}"
        show(console, rows, FIT[way], title, "offered", "auroc", ratio="")
    return rows


def share_found(question: LocomoQuestion, found: FoundTurns, what: str) -> float:
    """Return the share of a question's evidence among the first results. what: ``turns@10`` or ``sessions@5``."""
    if what.startswith("turns"):
        return len(question.turns.intersection(found.turns[:TURNS])) / len(question.turns)
    return len(question.sessions.intersection(found.sessions[:SESSIONS])) / len(question.sessions)


def _rows(what: str, answered: dict[str, list[tuple[LocomoQuestion, FoundTurns]]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for way, of_way in answered.items():
        of_category = {at: [one for one in of_way if one[0].category == at] for at in CATEGORIES}
        means = {name: _mean(what, of_category[at]) for at, name in CATEGORIES.items()}
        overall = _mean(what, of_way) or 0.0
        base = rows[0][OVERALL] if rows else overall
        row = {"what": what, "way": way, "count": len(of_way), OVERALL: overall, **means}
        rows.append({**row, "ratio": overall / (base or 1.0)})
    return rows


def _fit_rows(what: str, fits: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Return how many of the requests of each kind get an offer, and how well the fit separates the first kind."""
    own = next(iter(fits.values()))
    return [
        {
            "what": what,
            "way": name,
            "count": len(values),
            "offered": sum(value >= OFFERED for value in values) / max(len(values), 1),
            "auroc": None if values is own else auroc(own, values),
            "ratio": None,
        }
        for name, values in fits.items()
    ]


def _mean(what: str, answered: Answered) -> float | None:
    """Return the mean over questions; None if there are none."""
    return sum(share_found(*one, what) for one in answered) / len(answered) if answered else None


def _some(questions: Sequence[LocomoQuestion]) -> Sequence[LocomoQuestion]:
    """Return questions that are evenly distributed."""
    return questions[:: max(1, len(questions) // _FOREIGN)]
