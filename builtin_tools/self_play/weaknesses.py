"""Finds weaknesses in the record: failed calls, lessons that do not help, and quarantined or slow skills."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.skill import SkillState
from builtin_tools.memory.lessons.lesson import LessonOrigin
from builtin_tools.memory.lessons.lesson_book import LESSONS, LessonBook
from builtin_tools.memory.scope import owner_of_user
from builtin_tools.self_play.cycles import AGENT, Weakness, WeaknessKind
from engine.stores.call_views import AuditView

_CALLS = 500  # how many of the newest failed calls are read
_NOT_FAULTS = frozenset({"cancelled", "budget", "skipped", "denied", "not_approved"})  # reasons that show no weakness
_SHOWN = 3  # a lesson that was shown so often and helped less than every third time is a weakness
_SLOW_MS = 5_000.0
_SLOW_CALLS = 3
_MOST = 300  # characters of a text from the record


async def weaknesses(user: str, audit: AuditView, book: LessonBook, library: SkillLibrary) -> list[Weakness]:
    """Return the weaknesses that the record of a user shows."""
    calls = await asyncio.to_thread(_failed_calls, user, audit)
    return calls + await asyncio.to_thread(_lessons, user, book) + await _skills(library)


def choose(found: Sequence[Weakness], tries: Mapping[str, int]) -> Weakness | None:
    """Return the weakness to work on: of those that fewest cycles worked on, the most frequent; None if there is none.

    Args:
        found: The weaknesses.
        tries: How many cycles worked on each, by key.
    """
    return min(found, key=lambda each: (tries.get(each.key, 0), -each.times, each.key), default=None)


def _failed_calls(user: str, audit: AuditView) -> list[Weakness]:
    rows = audit.recent(_CALLS, failed=True)
    own = [
        row
        for row in rows
        if row["user"] == user and row["agent"] != AGENT and row["reason"] and row["reason"] not in _NOT_FAULTS
    ]
    counts = Counter((str(row["tool"]), str(row["reason"])) for row in own)
    return [
        Weakness(
            WeaknessKind.FAILED_CALL,
            f"{WeaknessKind.FAILED_CALL}:{tool}:{reason}",
            f"Calls of the tool `{tool}` failed {times} times ({reason}).",
            times,
        )
        for (tool, reason), times in counts.items()
    ]


def _lessons(user: str, book: LessonBook) -> list[Weakness]:
    lessons = book.all({owner_of_user(user): [LESSONS]})
    found = []
    for each in lessons:
        useless = each.shown >= _SHOWN and each.helped * 3 < each.shown
        if each.draft or (useless and each.what.origin is LessonOrigin.RUN):
            said = "has no known fix" if each.draft else f"was shown {each.shown} times and helped {each.helped} times"
            text = f"This lesson {said}: {each.what.text[:_MOST]}"
            found.append(Weakness(WeaknessKind.LESSON, f"{WeaknessKind.LESSON}:{each.id}", text, each.count))
    return found


async def _skills(library: SkillLibrary) -> list[Weakness]:
    skills = await library.skills()
    current = {(each.name, each.version): each for each in await library.stats_of(skills)} if skills else {}
    found = []
    for skill in skills:
        stats = current.get((skill.name, skill.version))
        about = f"the skill `{skill.name}` ({skill.description[:_MOST]})"
        if skill.state is SkillState.QUARANTINED:
            kind, text = WeaknessKind.QUARANTINED_SKILL, f"Quarantined, because it failed too often: {about}."
        elif stats is not None and stats.calls >= _SLOW_CALLS and (stats.mean_ms or 0.0) >= _SLOW_MS:
            kind, text = WeaknessKind.SLOW_SKILL, f"Slow, {stats.mean_ms:,.0f} ms per call: {about}."
        else:
            continue
        found.append(Weakness(kind, f"{kind}:{skill.name}:{skill.version}", text, stats.failures if stats else 1))
    return found
