"""The instructions that the loop sends to the model."""

from engine.agent.budget import Budget, Finish

SYSTEM = """\
You work with tools on the user's request until it is done, then answer in plain words.

- The list of tools is made for each turn from what is being discussed. It includes the learned tools that fit.
- Read the result of a tool before you continue. When a call failed, the result says why: correct the arguments and try
  again, use the alternative that it names, or call `replan` when the approach is wrong. Never repeat the same failing
  call.
- When something will be needed again, save it with `create_skill`: code, and tests that would fail if it were wrong.
- When it cannot be done, call `abort_attempt` and say what you learned. Claim nothing that no tool result shows.
"""

DISCOVERY = """\
- Three tools give you access to many others: find one with `search_tools`, read about it with `describe_tool`, and
  call it with `execute_tool`. Search again with other words when nothing fits.
"""

PROGRAMS = """\
- Besides the tools of the list you have many others, which programs call: `execute` Python code with
  `from knackbox import tools` and `tools.NAME(argument=value)`. Signatures of tools that may fit come with the message.
  Find others with `search_tools`, and read about one, such as what it returns, with `describe_tool`.
- Do as much as you can in one program, with loops and conditions, and return only what you need for the answer.
"""

RESUMED = (
    "This run was interrupted here and now continues. What programs kept in memory, such as the variables of a kernel, "
    "may be gone. Files are as they were."
)

NUDGE = (
    "You announced work but made no call, so nothing was done. Make the calls now. If nothing is left to do, answer "
    "the user with what the results show; if you need something from the user, ask for it."
)


def replan(reason: str) -> str:
    """Return the message to send after the control signal `replan` or a FATAL failure."""
    because = f" because: {reason}" if reason else ""
    return (
        f"The previous strategy was abandoned{because}. Keep what is known to be true, and drop the rest. "
        "State a different strategy in one or two lines, then carry it out."
    )


def message_from(sender: str, text: str) -> str:
    """Return a message that a program sent to the run, so that it cannot be taken for the user's words."""
    return f"Message from {sender}, not from the user:\n{text}"


def closing(budget: Budget, finish: Finish) -> str:
    """Return the message to send before the last turn that the budget allows."""
    return (
        f"This is the last turn: the budget of {budget.describe(finish)} is used up, and no more tools can be called. "
        "Say in a few lines what was achieved, what was not, and what would come next. Claim nothing else."
    )
