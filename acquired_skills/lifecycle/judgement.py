"""Derives the state of a version from its calls: probation, active or quarantined (SKILL-13)."""

from math import sqrt

from acquired_skills.model.skill import SkillState
from acquired_skills.store.totals import Counted

# One-sided 95 %. E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
Z = 1.645
TRUSTED = 0.7  # lower bound of the success rate of an active skill, reached by 7 calls without a failure
DISTRUSTED = 0.5  # lower bound of the failure rate of a quarantined skill, reached by 3 calls without a success


def wilson_lower_bound(times: int, of: int) -> float:
    """Return Wilson's lower bound of the rate of an event that occurred `times` times in `of` trials."""
    if not times:  # the formula gives 0 here, too, but with a rounding error
        return 0.0
    share, z2 = times / of, Z * Z
    centre, spread = share + z2 / (2 * of), Z * sqrt((share * (1 - share) + z2 / (4 * of)) / of)
    return max(0.0, (centre - spread) / (1 + z2 / of))


def earned_state(
    state: SkillState, successes: int, failures: int, lately: Counted | None = None, *, proved: bool = True
) -> SkillState:
    """Return the state that a version has earned by the calls that count. A disabled skill stays disabled.

    An active version returns to probation when it is no longer more likely to succeed than to fail.

    Args:
        lately: The outcomes of the latest `LATELY` calls. If all of them failed, the version is quarantined.
        proved: Whether all questions about the results of the version are answered. If not, it does not become active.
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
