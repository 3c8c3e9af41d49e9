"""Where a skill comes from, in words that are kept with it: who proposed it, by what, from which call (SKILL-17).

A flat table of texts, so that everybody who reads the format can read it. The keys: `by` (the tool or command), `user`,
`agent`, `call` (its id, as in the audit), `approved` and `approved_by` (what a person allowed, and who), `imported`
(of what, with its SHA-256), `rolled_back` (to which version, by whom).
"""

import getpass
from collections.abc import Mapping

from engine.contract.context import CallContext

MOST_CHARS = 1000


def of_call(ctx: CallContext, by: str) -> dict[str, str]:
    """Of what a tool does. by: its name."""
    return _bounded({"by": by, "user": ctx.turn.user, "agent": ctx.turn.agent, "call": ctx.call_id})


def of_person(by: str) -> dict[str, str]:
    """Of what somebody does at the command line. by: the command."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # nobody of that id is known to the system
        user = "unknown"
    return _bounded({"by": by, "user": user})


def in_one_line(provenance: Mapping[str, str]) -> str:
    """For people: ``create_skill, user local, agent main, call 01J…``."""
    told = [f"{key.replace('_', ' ')} {value}" for key, value in provenance.items() if key != "by" and value]
    return ", ".join([provenance.get("by", "unknown"), *told])


def _bounded(told: Mapping[str, str]) -> dict[str, str]:
    return {key: "".join(c if c.isprintable() else "?" for c in value)[:MOST_CHARS] for key, value in told.items()}
