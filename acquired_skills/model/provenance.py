"""Where a skill comes from: who proposed it, with which tool, in which call (SKILL-17).

A flat table of strings, kept with the skill, so that every reader of the format can read it. The keys: `by` (the tool
or command), `user`, `agent`, `call` (its id, as in the audit), `approved` and `approved_by` (what a person allowed, and
who), `imported` (from which file, with its SHA-256), `rolled_back` (to which version, by whom).
"""

import getpass
from collections.abc import Mapping

from engine.contract.context import CallContext

MOST_CHARS = 1000


def of_call(ctx: CallContext, by: str) -> dict[str, str]:
    """Return the provenance of a tool call. by: the tool's name."""
    return _bounded({"by": by, "user": ctx.turn.user, "agent": ctx.turn.agent, "call": ctx.call_id})


def of_person(by: str) -> dict[str, str]:
    """Return the provenance of a command. by: the command."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # the system knows no user with this id
        user = "unknown"
    return _bounded({"by": by, "user": user})


def in_one_line(provenance: Mapping[str, str]) -> str:
    """Format provenance for people: ``create_skill, user local, agent main, call 01J…``."""
    parts = [f"{key.replace('_', ' ')} {value}" for key, value in provenance.items() if key != "by" and value]
    return ", ".join([provenance.get("by", "unknown"), *parts])


def _bounded(parts: Mapping[str, str]) -> dict[str, str]:
    return {key: "".join(c if c.isprintable() else "?" for c in value)[:MOST_CHARS] for key, value in parts.items()}
