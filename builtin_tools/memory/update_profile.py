"""`update_profile`: stores facts about the user, which are part of every turn's prompt."""

import asyncio
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from builtin_tools.memory.entries import EntrySource, SourceKind
from builtin_tools.memory.profile import MOST_KEY, MOST_VALUE, PROFILE, Profile, ProfileError
from builtin_tools.memory.scope import MemoryScope
from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure
from engine.contract.spec import Annotations
from engine.dispatch.refusals import wrong_arguments
from engine.registry.decorate import tool

Key = Annotated[str, Field(min_length=1, max_length=MOST_KEY)]
Value = Annotated[str, Field(min_length=1, max_length=MOST_VALUE)]


class ProfileOutput(TypedDict):
    """The output of update_profile.

    Attributes:
        profile: All current facts by key.
        before: The value that was replaced or removed; null if there was none.
    """

    key: str
    before: str | None
    profile: dict[str, str]


@tool(
    category="memory",
    annotations=Annotations(idempotent=True),
    tier="low",
    side_effects=("memory_write",),
    required_permission="user",
    private_arguments=("value",),
    short_description="Keep a fact about the user.",
)
async def update_profile(
    ctx: CallContext, key: Key, value: Value | None = None, *, action: Literal["set", "remove"] = "set"
) -> Produced[ProfileOutput]:
    """Keep a lasting fact about the user, such as a name, a language, a home town or a preference.

    The profile is part of the instructions of every later turn, so keep it short and keep only what the user said and
    wants to be known. A new value replaces the old one, which stays in the history. For facts about anything else, use
    knowledge_base; for a mistake and its fix, use learn_skill.

    Args:
        key: What the fact is, in a few lower-case words, such as home_city or preferred_units.
        value: The fact itself. Required for set.
        action: `set` stores the value, `remove` removes the key.
    """
    scope = MemoryScope.of(ctx.turn)
    owner = scope.owner(PROFILE)
    profile = ctx.need(Profile)
    source = EntrySource(SourceKind.TOOL, user=scope.user, agent=scope.agent, call_id=ctx.call_id)
    try:
        if action == "remove":
            before = await asyncio.to_thread(profile.remove, owner, key)
            if before is None:
                raise ToolFailure(f"The profile has no {key!r}.", reason="not_found", may_have_started=False)
            text = f"Removed {before.key}, which was {before.value!r}."
        else:
            if value is None:
                raise wrong_arguments("`value` is missing: set needs the fact.")
            item, before = await asyncio.to_thread(profile.set, owner, key, value, source)
            key = item.key
            text = _confirmation(item.key, item.value, None if before is None else before.value)
    except ProfileError as error:
        raise wrong_arguments(str(error)) from error
    items = await asyncio.to_thread(profile.items, owner)
    output: ProfileOutput = {
        "key": key if before is None else before.key,
        "before": None if before is None else before.value,
        "profile": {item.key: item.value for item in items},
    }
    return Produced(output, text, (f"profile:{output['key']}",))


def _confirmation(key: str, value: str, before: str | None) -> str:
    if before == value:
        return f"{key} was known already."
    return f"Noted {key}: {value}." if before is None else f"Noted {key}: {value}, in place of {before}."
