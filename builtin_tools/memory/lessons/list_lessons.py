"""`list_lessons`: shows the lessons that were learned."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, time, timedelta
from typing import Literal

from typing_extensions import TypedDict

from builtin_tools.memory.lessons.lesson import Lesson, LessonOrigin
from builtin_tools.memory.lessons.lesson_book import LESSONS, LessonBook
from builtin_tools.memory.scope import MemoryScope
from engine.contract.context import CallContext, Produced
from engine.contract.spec import META_TOOL, Annotations
from engine.registry.decorate import tool

LessonScope = Literal["today", "week", "all", "self_play_only"]

MOST_LISTED = 50
_WEEK = timedelta(days=7)


class LessonRow(TypedDict):
    """A lesson, as list_lessons returns it.

    Attributes:
        draft: Whether the fix is not known yet.
        count: How many times the lesson was learned.
        shown, followed, helped: The number of runs in which the lesson was shown, was followed, and helped.
        updated: When the lesson was last learned (ISO 8601).
    """

    id: str
    mistake: str
    fix: str
    where: str
    origin: str
    draft: bool
    count: int
    shown: int
    followed: int
    helped: int
    evidence: list[str]
    updated: str


@tool(
    category="memory",
    annotations=Annotations(read_only=True, idempotent=True),
    tier="low",
    required_permission="user",
    short_description="List the lessons: mistakes and their fixes.",
    meta={META_TOOL: True},
)
async def list_lessons(ctx: CallContext, scope: LessonScope = "all") -> Produced[list[LessonRow]]:
    """List the lessons: mistakes that were made in earlier runs, and their fixes.

    Use it when the user asks what you have learned or which mistakes to avoid. It does not list tools: when the user
    says "show me your skills", call manage_skills instead. Drafts are repeated failures whose fix is not known yet; if
    you know the fix, complete one with learn_skill.

    Args:
        scope: Which lessons to list: those learned today or in the last seven days, all, or only those from self-play.
    """
    own = MemoryScope.of(ctx.turn)
    owner = own.owner(LESSONS)
    since = _since(scope, ctx.clock.now().astimezone())
    origin = LessonOrigin.SELF_PLAY if scope == "self_play_only" else None
    found = await asyncio.to_thread(ctx.need(LessonBook).all, {owner: [LESSONS]}, since, origin)
    rows = [_row(each) for each in found[:MOST_LISTED]]
    return Produced(rows, _message(rows, len(found)))


def _since(scope: LessonScope, now: datetime) -> float | None:
    if scope == "today":
        return datetime.combine(now.date(), time(), now.tzinfo).timestamp()
    return (now - _WEEK).timestamp() if scope == "week" else None


def _row(lesson: Lesson) -> LessonRow:
    what = lesson.what
    return LessonRow(
        id=lesson.id,
        mistake=what.mistake,
        fix=what.fix,
        where=what.where,
        origin=what.origin.value,
        draft=lesson.draft,
        count=lesson.count,
        shown=lesson.shown,
        followed=lesson.followed,
        helped=lesson.helped,
        evidence=list(what.evidence),
        updated=datetime.fromtimestamp(lesson.updated).astimezone().isoformat(timespec="seconds"),
    )


def _message(rows: Sequence[LessonRow], total: int) -> str:
    if not rows:
        return "No lessons."
    lines = [_line(row) for row in rows if not row["draft"]]
    drafts = [f"- {row['mistake']} Draft {row['id']}: complete it with learn_skill." for row in rows if row["draft"]]
    lines += ["", "Failures without a lesson:", *drafts] if drafts else []
    lines += [f"… and {total - len(rows)} more."] if total > len(rows) else []
    return "\n".join(lines).strip()


def _line(row: LessonRow) -> str:
    place = f" ({row['where']})" if row["where"] else ""
    times = f", learned {row['count']} times" if row["count"] > 1 else ""
    used = f", shown in {row['shown']} runs and helped in {row['helped']}" if row["shown"] else ""
    return f"- Mistake{place}: {row['mistake']} Fix: {row['fix']} [{row['origin']}{times}{used}]"
