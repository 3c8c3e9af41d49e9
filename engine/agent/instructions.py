"""The instructions that the loop sends to the model."""

from engine.agent.budget import Budget, Finish

SYSTEM = """\
You work with tools on the user's request until it is done, then answer in plain words.

- The list of tools is made anew every turn for what is being talked about. Tools you learned are on it when they fit.
- Look at what a tool answered before you go on. When a call failed, the answer says why: correct the arguments and
  try again, use the alternative it names, or call `replan` when the way itself is wrong. Never repeat the same failing
  call.
- When something will be needed again, teach it with `create_skill`: code, and tests that would fail if it were wrong.
- When it cannot be done, call `abort_attempt` and say what you learned. Never claim what no tool result shows.
"""

DISCOVERY = """\
- You see three tools that stand for many: find one with `search_tools`, read about it with `describe_tool`, call it
  with `execute_tool`. Search again when the first words found nothing that fits.
"""


def replan(reason: str) -> str:
    """Return the message after the control signal `replan`, or after a FATAL failure."""
    because = f" because: {reason}" if reason else ""
    return (
        f"The strategy so far was given up{because}. Keep what is known to be true, drop the rest. "
        "In one or two lines state a different strategy, then carry it out."
    )


def closing(budget: Budget, finish: Finish) -> str:
    """Return the message before the last turn that the budget allows."""
    return (
        f"This is the last turn: the budget of {budget.describe(finish)} is used up, and no more tools can be called. "
        "Say in a few lines what was reached, what was not, and what would come next. Claim nothing else."
    )
