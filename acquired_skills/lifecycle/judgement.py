"""The state that its calls earn a version: probation, active, quarantined (SKILL-13)."""

from math import sqrt

from acquired_skills.model.skill import SkillState
from acquired_skills.store.totals import Counted

# One-sided 95 %. E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
Z = 1.645
TRUSTED = 0.7  # lower bound of success for active: reached by 7 calls without a failure
DISTRUSTED = 0.5  # lower bound of failure for quarantined: reached by 3 calls without a success


def wilson_lower_bound(times: int, of: int) -> float:
    """Return Wilson's lower bound for a proportion of `times` out of `of`; 0 for no trials."""
    if not of:
        return 0.0
    share, z2 = times / of, Z * Z
    centre, spread = share + z2 / (2 * of), Z * sqrt((share * (1 - share) + z2 / (4 * of)) / of)
    return max(0.0, (centre - spread) / (1 + z2 / of))


def earned_state(state: SkillState, successes: int, failures: int, lately: Counted | None = None) -> SkillState:
    """Return the state that the counted calls of a version have earned it. A disabled skill stays disabled.

    A version is also quarantined, by the same bound, when its `LATELY` latest calls (`lately`) are all failures. An
    active one returns to probation when it is no longer more likely to succeed than to fail.
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
    if wilson_lower_bound(successes, calls) >= TRUSTED:
        return SkillState.ACTIVE
    if state is SkillState.ACTIVE and wilson_lower_bound(successes, calls) < DISTRUSTED:
        return SkillState.PROBATION
    return state
