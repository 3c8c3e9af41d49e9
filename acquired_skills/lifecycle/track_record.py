"""`TrackRecord`: how each version of a skill does, what that says of it, what it failed on (SKILL-12, SKILL-13)."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from acquired_skills.lifecycle.judgement import judged, sure
from acquired_skills.lifecycle.learned_requests import LearnedRequests
from acquired_skills.lifecycle.telemetry import Telemetry, counted
from acquired_skills.model.skill import Skill, SkillState
from acquired_skills.store.failed_inputs import FailedInput, FailedInputs
from acquired_skills.store.ledger import Ledger
from acquired_skills.store.totals import SkillCall, VersionStats
from engine.contract.context import Clock
from engine.contract.failure import FailureClass
from engine.contract.turn import Turn


class TrackRecord:
    """Calls are written in batches; whoever asks for figures gets all of them."""

    def __init__(
        self, ledger: Ledger, failed: FailedInputs, clock: Clock, requests: LearnedRequests | None = None
    ) -> None:
        """requests: where to note what skills were called for with success, if anywhere."""
        self._ledger = ledger
        self._failed = failed
        self._clock = clock
        self._requests = requests
        self._telemetry = Telemetry(ledger)
        self._outcomes: dict[str, tuple[int, int, int]] = {}  # version, successes, failures, as far as known here

    def log(
        self, skill: Skill, success: bool, latency_ms: float | None = None, failure_class: FailureClass | None = None
    ) -> None:
        """One call of this version."""
        counts = success or counted(failure_class)
        call = SkillCall(skill.name, skill.version, self._now(), success, counts, latency_ms, failure_class)
        self._telemetry.log(call)
        version, good, bad = self._known(skill)
        if counts and version == skill.version:
            self._outcomes[skill.name] = (version, good + success, bad + (not success))

    async def stats(
        self, names: Collection[str] | None = None, limit: int | None = None, after: str = ""
    ) -> list[VersionStats]:
        """Calls per version, by name and then newest version first; of these skills or of all. after: names beyond."""
        await self.flush()
        return await asyncio.to_thread(self._ledger.stats, names, limit, after)

    async def flush(self) -> None:
        """Write what waits."""
        await self._telemetry.flush()

    def weights(self, names: Sequence[str]) -> Mapping[str, float]:
        """Factors by which the current versions of these skills are found less because they failed; 1 where not given.

        A factor goes from 1 down towards a half by the Wilson lower bound of the share of failures: a few of many, or
        one alone, say little. Blocks; `flush` first.
        """
        return {
            one.name: 1 - 0.5 * sure(one.failures, one.successes + one.failures) for one in self._ledger.failing(names)
        }

    def keep_request(self, skill: Skill, turn: Turn) -> None:
        """This skill was called in this turn, and succeeded: it may be found by such requests."""
        if self._requests is not None:
            self._requests.note(skill.name, turn.query)

    def settled(self, skill: Skill) -> bool:
        """Whether the calls known here leave it in its state: quick, and right unless other processes know better."""
        version, good, bad = self._known(skill)
        return version == skill.version and judged(skill.state, good, bad) is skill.state

    async def earned(self, skill: Skill) -> SkillState:
        """The state that the calls of this version have earned it by now."""
        of = [one for one in await self.stats([skill.name]) if one.version == skill.version]
        good, bad = (of[0].successes, of[0].failures) if of else (0, 0)
        self._outcomes[skill.name] = (skill.version, good, bad)
        lately = await asyncio.to_thread(self._ledger.latest, skill.name, skill.version)
        return judged(skill.state, good, bad, lately)

    async def forgive(self, skill: Skill) -> None:
        """Its failures so far no longer count."""
        await self._telemetry.flush()
        await asyncio.to_thread(self._ledger.forgive, skill.name, skill.version)
        self._outcomes.pop(skill.name, None)

    async def keep_failed(self, skill: Skill, arguments: Mapping[str, Any], error: str, turn: Turn) -> None:
        """Keep what this version was called with, in this turn, when it failed."""
        failed = FailedInput(self._now(), arguments, error, turn.user, turn.agent)
        await asyncio.to_thread(self._failed.keep, skill.name, skill.version, failed)

    async def failed_inputs(self, skill: Skill, user: str | None) -> list[FailedInput]:
        """What this version was called with by a user when it failed, the latest last. user: None for everybody."""
        return await asyncio.to_thread(self._failed.of, skill.name, skill.version, user)

    async def aclose(self) -> None:
        """Write what waits."""
        if self._requests is not None:
            await self._requests.aclose()
        await self._telemetry.aclose()

    def _known(self, skill: Skill) -> tuple[int, int, int]:
        """Version, successes, failures; version 0 where nothing was read yet."""
        return self._outcomes.get(skill.name, (0, 0, 0))

    def _now(self) -> str:
        return self._clock.now().isoformat(timespec="milliseconds")
