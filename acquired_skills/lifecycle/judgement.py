"""Derives the state of a version from its calls: probation, active or quarantined (SKILL-13)."""

from math import sqrt

from acquired_skills.model.skill import SkillState
from acquired_skills.store.totals import Counted

# One-sided 95 %. E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
Z = 1.645
TRUSTED = 0.7  # lower bound of the success rate at which a skill becomes active, reached by 7 calls without a failure
DISTRUSTED = 0.5  # lower bound of the failure rate at which it is quarantined, reached by 3 calls without a success


def wilson_lower_bound(times: int, of: int) -> float:
    """Return Wilson's lower bound for the proportion of `times` in `of` trials, or 0 if there are no trials."""
    if not times:  # the formula gives 0 here too, but only up to rounding
        return 0.0
    share, z2 = times / of, Z * Z
    centre, spread = share + z2 / (2 * of), Z * sqrt((share * (1 - share) + z2 / (4 * of)) / of)
    return max(0.0, (centre - spread) / (1 + z2 / of))


def earned_state(
    state: SkillState, successes: int, failures: int, lately: Counted | None = None, *, proved: bool = True
) -> SkillState:
    """Return the state of a version that follows from its counted calls. A disabled skill remains disabled.

    A version is also quarantined if its latest `LATELY` calls (`lately`) all failed. An active version returns to
    probation when it is no longer more likely to succeed than to fail. A version that is not `proved`, because
    questions about its results are open, does not become active.
    """
    calls = successes + failures
    if not state.listed:
        return state
    recent = lately or Counted()
    if (
        max(
            wilson_lower_bound(failures, calls), wilson_lower_bound(recent.failures, recent.successes + recent.failures)
        )
        >= DISTRUSTED
    ):
        return SkillState.QUARANTINED
    if proved and wilson_lower_bound(successes, calls) >= TRUSTED:
        return SkillState.ACTIVE
    if state is SkillState.ACTIVE and wilson_lower_bound(successes, calls) < DISTRUSTED:
        return SkillState.PROBATION
    return state
