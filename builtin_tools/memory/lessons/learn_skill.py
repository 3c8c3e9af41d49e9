"""`learn_skill`: stores a lesson, which is a mistake and its fix."""

import asyncio
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from builtin_tools.memory.entries import EntrySource, SourceKind
from builtin_tools.memory.lessons.lesson import MOST_EVIDENCE, LessonOrigin, NewLesson
from builtin_tools.memory.lessons.lesson_book import LESSONS, LessonBook
from builtin_tools.memory.scope import MemoryScope
from engine.contract.context import CallContext, Produced
from engine.contract.spec import Annotations
from engine.registry.decorate import tool

Text = Annotated[str, Field(min_length=8, max_length=600)]
Place = Annotated[str, Field(max_length=120)]
CallId = Annotated[str, Field(min_length=1, max_length=200)]


class LearnedOutput(TypedDict):
    """The output of learn_skill.

    Attributes:
        merged: Whether the lesson was merged with a similar one.
        count: How many times the lesson was learned.
    """

    id: str
    merged: bool
    count: int


@tool(
    category="memory",
    annotations=Annotations(idempotent=False),
    tier="low",
    side_effects=("memory_write",),
    required_permission="user",
    private_arguments=("mistake", "fix", "where"),
    short_description="Store a lesson: a mistake and its fix.",
)
async def learn_skill(
    ctx: CallContext,
    mistake: Text,
    fix: Text,
    *,
    where: Place = "",
    evidence: Annotated[list[CallId], Field(max_length=MOST_EVIDENCE)] | None = None,
    draft: str = "",
) -> Produced[LearnedOutput]:
    """Store a lesson to avoid repeating a mistake: what went wrong, and what to do instead.

    Use it when you found out why something failed, or when the user corrects how you work. Lessons that fit a later
    message are shown with that message. If a similar lesson is stored, the two are merged. For a tool made of code, use
    create_skill. For a fact about the user, use update_profile. For any other fact, use knowledge_base.

    Args:
        mistake: What went wrong, in one sentence that makes sense later.
        fix: What to do instead, as an instruction.
        where: When the lesson applies: the name of a tool, or a kind of task.
        evidence: Ids of the calls that showed the mistake.
        draft: The id of a draft that list_lessons showed, which this lesson completes.
    """
    scope = MemoryScope.of(ctx.turn)
    owner = scope.owner(LESSONS)
    book = ctx.need(LessonBook)
    place = where.strip()
    new = NewLesson(
        mistake=" ".join(mistake.split()),
        fix=" ".join(fix.split()),
        where=place,
        tool=place if place.isidentifier() else "",
        evidence=tuple(evidence or ()),
        origin=LessonOrigin.RUN,
    )
    source = EntrySource(SourceKind.TOOL, user=scope.user, agent=scope.agent, call_id=ctx.call_id)
    lesson, merged = await asyncio.to_thread(book.learn, owner, LESSONS, new, source, draft)
    text = f"Merged with a known lesson, which has now been learned {lesson.count} times." if merged else "Learned."
    return Produced({"id": lesson.id, "merged": merged, "count": lesson.count}, text, (f"learned:{lesson.id}",))
