"""Where a skill comes from: who proposed it, with which tool, and in which call (SKILL-17).

Provenance is a flat table of strings that is stored with the skill, so every reader of the format can read it. Its keys
are `by` (the tool or command), `user`, `agent`, `call` (the id of the call in the audit), `approved` and `approved_by`
(what a person allowed, and who that person is), `imported` (the imported file, with its SHA-256), `drafted_from` (the
instructions and their script, with the SHA-256 of the script, and whether the function was changed), `distilled_from`
(the run from whose program it was made), and `rolled_back`
(the version, and who rolled back to it).
"""

import getpass
from collections.abc import Mapping

from engine.contract.context import CallContext

MOST_CHARS = 1000
_ORIGINS = ("imported", "drafted_from", "distilled_from")


def of_call(ctx: CallContext, by: str) -> dict[str, str]:
    """Return the provenance of a skill that is proposed in a call of the tool named `by`."""
    return _bounded({"by": by, "user": ctx.turn.user, "agent": ctx.turn.agent, "call": ctx.call_id})


def of_person(by: str) -> dict[str, str]:
    """Return the provenance of a skill that the current system user proposes with the command `by`."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # this user id has no name on the system
        user = "unknown"
    return _bounded({"by": by, "user": user})


def origins(provenance: Mapping[str, str]) -> dict[str, str]:
    """Return the part of a provenance that says where the code comes from, which is also true of later versions."""
    return {key: provenance[key] for key in _ORIGINS if key in provenance}


def in_one_line(provenance: Mapping[str, str]) -> str:
    """Format provenance for people: ``create_skill, user local, agent main, call 01J…``."""
    parts = [f"{key.replace('_', ' ')} {value}" for key, value in provenance.items() if key != "by" and value]
    return ", ".join([provenance.get("by", "unknown"), *parts])


def _bounded(parts: Mapping[str, str]) -> dict[str, str]:
    return {key: "".join(c if c.isprintable() else "?" for c in value)[:MOST_CHARS] for key, value in parts.items()}
