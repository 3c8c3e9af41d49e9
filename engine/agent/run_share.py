"""`share_of`: what is left of the budget of a run, which limits the runs that it starts."""

from engine.agent.active_run import ActiveRun
from engine.contract.turn import RunShare


def share_of(run: ActiveRun) -> RunShare:
    """Return what is left of the budget of a run."""
    spent, budget = run.state.spent, run.budget
    return RunShare(
        max(budget.turns - spent.turns, 0),
        max(budget.tool_calls - spent.tool_calls, 0),
        max(budget.tokens - spent.tokens, 0),
        max(budget.wall_s - run.recorder.clock.worked_s, 0.0),
    )
