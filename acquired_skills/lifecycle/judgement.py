"""The life of a version: probation, active, quarantined (SKILL-13). What it did decides, not who made it."""

from math import sqrt

from acquired_skills.model.skill import SkillState
from acquired_skills.store.totals import Counted

# One-sided 95 %. E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
Z = 1.645
TRUSTED = 0.7  # active when it is that sure to succeed: after 7 calls without a failure
DISTRUSTED = 0.5  # quarantined when it is that sure to fail: after 3 calls without a success


def sure(times: int, of: int) -> float:
    """The least share that is likely when it came so many times of so many: Wilson's lower bound. 0 for none."""
    if not of:
        return 0.0
    share, z2 = times / of, Z * Z
    centre, spread = share + z2 / (2 * of), Z * sqrt((share * (1 - share) + z2 / (4 * of)) / of)
    return max(0.0, (centre - spread) / (1 + z2 / of))


def judged(state: SkillState, successes: int, failures: int, lately: Counted | None = None) -> SkillState:
    """The state that the counted calls of a version have earned it. What a person disabled stays so.

    lately: the latest `LATELY` of them, which quarantine it by the same bound when all are failures. An active one goes
    back to probation when it is no longer surer to succeed than to fail.
    """
    calls = successes + failures
    if not state.listed:
        return state
    recent = lately or Counted()
    if max(sure(failures, calls), sure(recent.failures, recent.successes + recent.failures)) >= DISTRUSTED:
        return SkillState.QUARANTINED
    if sure(successes, calls) >= TRUSTED:
        return SkillState.ACTIVE
    if state is SkillState.ACTIVE and sure(successes, calls) < DISTRUSTED:
        return SkillState.PROBATION
    return state
