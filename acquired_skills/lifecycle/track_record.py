"""`TrackRecord`: statistics and failed inputs of each version, and the state it has earned (SKILL-12, SKILL-13)."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from acquired_skills.lifecycle.judgement import earned_state, wilson_lower_bound
from acquired_skills.lifecycle.telemetry import Telemetry, counted
from acquired_skills.model.skill import Skill, SkillState
from acquired_skills.proof.admission_report import open_questions
from acquired_skills.store.corrected_calls import CorrectedCalls
from acquired_skills.store.failed_inputs import FailedInput, FailedInputs
from acquired_skills.store.ledger import Ledger
from acquired_skills.store.totals import SkillCall, VersionStats
from engine.contract.context import Clock
from engine.contract.failure import FailureClass
from engine.contract.turn import Turn


class TrackRecord:
    """Records calls in batches, and reads statistics. The current batch is written before statistics are read."""

    def __init__(
        self,
        ledger: Ledger,
        failed: FailedInputs,
        corrected: CorrectedCalls,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._failed = failed
        self.corrected = corrected
        self._clock = clock
        self._telemetry = Telemetry(ledger)
        self._outcomes: dict[str, tuple[int, int, int]] = {}  # version, successes and failures by skill

    def log(
        self, skill: Skill, success: bool, latency_ms: float | None = None, failure_class: FailureClass | None = None
    ) -> None:
        """Record one call of this version."""
        counts = success or counted(failure_class)
        call = SkillCall(skill.name, skill.version, self._now(), success, counts, latency_ms, failure_class)
        self._telemetry.log(call)
        version, good, bad = self._known(skill)
        if counts and version == skill.version:
            self._outcomes[skill.name] = (version, good + success, bad + (not success))

    async def stats(
        self, names: Collection[str] | None = None, limit: int | None = None, after: str = ""
    ) -> list[VersionStats]:
        """Return the statistics of each version, sorted by name, with the newest version first.

        Args:
            names: The names of the skills; None for all.
            limit: The maximum number of rows.
            after: Return only names after this one.
        """
        await self.flush()
        return await asyncio.to_thread(self._ledger.stats, names, limit, after)

    async def flush(self) -> None:
        """Write the buffer."""
        await self._telemetry.flush()

    def weights(self, names: Sequence[str]) -> Mapping[str, float]:
        """Return, by skill name, the factors that lower the search scores of skills whose current versions failed.

        A skill that is not in the result has the factor 1. A factor falls from 1 towards 0.5 with the Wilson lower
        bound of the failure rate. So a single failure has little effect, and so have a few failures in many calls.
        Call `flush` first. This blocks.
        """
        return {
            one.name: 1 - 0.5 * wilson_lower_bound(one.failures, one.successes + one.failures)
            for one in self._ledger.failing(names)
        }

    def keeps_state(self, skill: Skill) -> bool:
        """Return whether the calls that this process has counted leave the state of a skill unchanged.

        This is fast, but may be wrong if other processes have recorded calls.
        """
        version, good, bad = self._known(skill)
        return (
            version == skill.version
            and earned_state(skill.state, good, bad, proved=not open_questions(skill.admission)) is skill.state
        )

    async def earned(self, skill: Skill) -> SkillState:
        """Return the state that this version has earned by its calls."""
        of = [one for one in await self.stats([skill.name]) if one.version == skill.version]
        good, bad = (of[0].successes, of[0].failures) if of else (0, 0)
        self._outcomes[skill.name] = (skill.version, good, bad)
        lately = await asyncio.to_thread(self._ledger.latest, skill.name, skill.version)
        return earned_state(skill.state, good, bad, lately, proved=not open_questions(skill.admission))

    async def forgive(self, skill: Skill) -> None:
        """Reset the failure count of a version. Only later failures count."""
        await self._telemetry.flush()
        await asyncio.to_thread(self._ledger.forgive, skill.name, skill.version)
        self._outcomes.pop(skill.name, None)

    async def forget(self, name: str, version: int) -> None:
        """Delete what is recorded of a version that was withdrawn, because its number is used again."""
        await self._telemetry.flush()
        await asyncio.to_thread(self._ledger.forget_calls, name, version)
        await asyncio.to_thread(self._failed.forget, name, version)
        self._outcomes.pop(name, None)

    async def keep_failed(self, skill: Skill, arguments: Mapping[str, Any], error: str, turn: Turn) -> None:
        """Record the arguments of a failed call of this version."""
        failed = FailedInput(self._now(), arguments, error, turn.user, turn.agent)
        await asyncio.to_thread(self._failed.keep, skill.name, skill.version, failed)

    async def carry_failed(self, skill: Skill, failed: Sequence[FailedInput]) -> None:
        """Record inputs on which an earlier version failed, and this version fails too, each for its user."""
        for each in failed:
            await asyncio.to_thread(self._failed.keep, skill.name, skill.version, each)

    async def failed_inputs(self, skill: Skill, user: str | None) -> list[FailedInput]:
        """Return the arguments of a user's failed calls of this version, oldest first.

        The corrections of the skill come first, with their correct results.

        Args:
            user: The user who made the calls; None for all users.
        """
        corrected = await asyncio.to_thread(self.corrected.of, skill.name)
        failed = await asyncio.to_thread(self._failed.of, skill.name, skill.version, user)
        known = [
            FailedInput(one.ts, one.arguments, f"corrected by {one.user}", one.user, right=one.right, raises=one.raises)
            for one in corrected
        ]
        return known + [one for one in failed if all(one.arguments != each.arguments for each in corrected)]

    async def aclose(self) -> None:
        """Write the buffer."""
        await self._telemetry.aclose()

    def _known(self, skill: Skill) -> tuple[int, int, int]:
        """Return the version that this process knows, and its counts of successes and failures; (0, 0, 0) if none."""
        return self._outcomes.get(skill.name, (0, 0, 0))

    def _now(self) -> str:
        return self._clock.now().isoformat(timespec="milliseconds")
