"""`Dreaming`: makes, shows, applies and undoes plans for consolidating the memory. Its methods are coroutines."""

import asyncio
import json
from collections.abc import Callable, Sequence

from acquired_skills.composed.suggest import MOST_CALLS, suggest_pipelines
from builtin_tools.memory.dream.model_steps import closings, fixes
from builtin_tools.memory.dream.plan import DreamPlan, DreamStep, StepKind
from builtin_tools.memory.dream.planner import DreamFindings, DreamPlanner
from builtin_tools.memory.dream.plans import DreamPlans
from builtin_tools.memory.entries import Entry
from builtin_tools.memory.lessons.lesson import Lesson
from builtin_tools.memory.profile import PROFILE, Profile
from builtin_tools.memory.scope import MemoryScope
from builtin_tools.memory.store import MemoryStore
from builtin_tools.scratchpad import Scratchpad
from engine.contract.context import Clock
from engine.contract.ports import LlmClient
from engine.contract.spec import ToolSpec
from engine.contract.turn import Turn
from engine.stores.call_views import AuditView, FailuresView

WALL_S = 90.0  # seconds for making a plan
STALE_DAYS = 90  # scratchpad notes that were not changed for this long are hidden
_MOST_ERRORS = 2_000  # characters of recorded errors that a model reads for one draft


class Dreaming:
    """Consolidates the personal memories of a turn's user, in the spaces that the turn's agent may use."""

    def __init__(
        self,
        store: MemoryStore,
        planner: DreamPlanner,
        plans: DreamPlans,
        profile: Profile,
        *,
        notes: Scratchpad,
        failures: FailuresView,
        clock: Clock,
    ) -> None:
        self._store = store
        self._planner = planner
        self._plans = plans
        self._profile = profile
        self._notes = notes
        self._failures = failures
        self._clock = clock

    async def make(
        self,
        turn: Turn,
        model: LlmClient | None = None,
        calls: AuditView | None = None,
        specs: Sequence[ToolSpec] = (),
        wall_s: float = WALL_S,
    ) -> DreamPlan:
        """Make a plan for the personal memories of a turn's user.

        Args:
            turn: The turn. Only spaces that its agent may use are examined.
            model: Decides what the rules cannot decide; None to use only the rules.
            calls: The recorded calls, from which composed skills are suggested; None to suggest nothing.
            specs: The tools that suggested skills may call.
            wall_s: Seconds after which the search for steps ends.
        """
        until = self._clock.monotonic() + wall_s
        scope = MemoryScope.of(turn)

        def out_of_time() -> bool:
            return self._clock.monotonic() >= until

        owner = scope.personal_owner
        found = await asyncio.to_thread(self._findings, scope, out_of_time)
        if model is not None:
            found.steps += await closings(model, found.pairs, out_of_time)
            found.steps += await fixes(model, found.drafts, self._errors, out_of_time)
        if calls is not None:
            found.steps += await asyncio.to_thread(_suggestions, calls, turn, specs)
        keys = await asyncio.to_thread(self._notes.stale, turn, STALE_DAYS)
        if keys:
            found.steps.append(DreamStep(StepKind.EXPIRE, data={"keys": keys, "agent": turn.agent}))
        complete = found.complete and not out_of_time()
        return await asyncio.to_thread(lambda: self._plans.add(owner, tuple(found.steps), complete=complete))

    async def called(self, turn: Turn, calls: AuditView) -> set[str]:
        """Return the names of the tools that a turn's user called recently."""
        rows = await asyncio.to_thread(calls.recent, MOST_CALLS)
        return {str(row["tool"]) for row in rows if row["user"] == turn.user}

    async def plans(self, turn: Turn) -> list[DreamPlan]:
        """Return the plans of a turn's user, newest first."""
        return await asyncio.to_thread(self._plans.all, MemoryScope.of(turn).personal_owner)

    async def get(self, turn: Turn, plan_id: str = "") -> DreamPlan | None:
        """Return a plan of a turn's user by its id, or the newest if no id is given; None if there is none."""
        return await asyncio.to_thread(self._plans.get, MemoryScope.of(turn).personal_owner, plan_id)

    async def apply(self, plan: DreamPlan) -> DreamPlan:
        """Apply the steps of a plan that are not applied yet."""
        return await asyncio.to_thread(self._plans.apply, plan)

    async def undo(self, plan: DreamPlan) -> DreamPlan:
        """Undo the steps of a plan that are applied."""
        return await asyncio.to_thread(self._plans.undo, plan)

    async def lines(self, plan: DreamPlan) -> list[str]:
        """Return one line for people about each step, with the texts of those of its entries that still exist."""
        ids = {key for step in plan.steps for key in (*step.entries, step.keep) if key}

        def read() -> dict[str, Entry]:
            with self._store.reading() as memory:
                return memory.get([plan.owner], ids)

        entries = await asyncio.to_thread(read)
        return [f"{step.state.value}: {_line(step, entries)}" for step in plan.steps]

    def _findings(self, scope: MemoryScope, out_of_time: Callable[[], bool]) -> DreamFindings:
        with self._store.reading() as memory:
            spaces = scope.readable(memory).get(scope.personal_owner, ())
        profile = self._profile.items(scope.personal_owner) if PROFILE in spaces else []
        return self._planner.findings(scope.personal_owner, spaces, profile, out_of_time)

    def _errors(self, draft: Lesson) -> str:
        """Return the text of a draft of a lesson, and the recorded errors of the failed calls that led to the draft."""
        rows = self._failures.recent(limit=500)
        own = [row for row in rows if row["tool"] == draft.what.tool and row["call_id"] in draft.what.evidence]
        errors = "\n".join(str(row["error_text"]) for row in own)[:_MOST_ERRORS]
        return f"{draft.what.mistake}\n{errors}".strip()


def _suggestions(calls: AuditView, turn: Turn, specs: Sequence[ToolSpec]) -> list[DreamStep]:
    rows = [row for row in calls.recent(MOST_CALLS) if row["user"] == turn.user]
    found = suggest_pipelines(rows, {spec.name: spec for spec in specs})
    return [DreamStep(StepKind.SUGGEST, data={"tools": list(each.tools), "times": each.times}) for each in found]


def _line(step: DreamStep, entries: dict[str, Entry]) -> str:
    def text(key: str) -> str:
        return json.dumps(entries[key].text, ensure_ascii=False) if key in entries else "(forgotten)"

    others = ", ".join(text(key) for key in step.entries)
    match step.kind:
        case StepKind.MERGE:
            return f"merge {others} into {text(step.keep)}"
        case StepKind.CLOSE:
            return f"close {others}, which {text(step.keep)} replaces"
        case StepKind.PROFILE:
            return f"add to the profile as {step.data['key']}: {text(step.keep)}, said {step.data['times']} times"
        case StepKind.LESSON:
            return f"learn from failures: {step.data['mistake']} Fix: {step.data['fix']}"
        case StepKind.EXPIRE:
            return f"hide notes not changed for {STALE_DAYS} days: {', '.join(step.data['keys'])}"
        case StepKind.SUGGEST:
            return f"consider compose_skill for {' -> '.join(step.data['tools'])}, called {step.data['times']} times"
