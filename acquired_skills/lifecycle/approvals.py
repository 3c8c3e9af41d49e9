"""Asks a person to approve the packages and destinations that a proposal declares.

Nobody is asked about packages and destinations that the configuration allows. An approval never extends the
configuration: destinations that `allow` under `[egress]` does not list are refused without asking anybody.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.proposal import Part, ProposalProblem, SkillRefused
from acquired_skills.model.provenance import MOST_CHARS
from acquired_skills.model.script_block import ScriptBlock
from acquired_skills.model.skill import Skill
from engine.contract.spec import Annotations, ToolSpec
from engine.policy.approval import ApprovalGuard
from sandbox.contract import Destination

ANY = "*"
MOST_ASKED = 1_500  # maximum number of characters of the declarations; every form of approval shows 2,000 or more

# Asks a person to approve these arguments and returns that person's name. Raises ToolFailure if nobody agreed.
Ask = Callable[[dict[str, Any]], Awaitable[str]]

QUESTION = ToolSpec(
    name="create_skill",
    description="Store a skill that installs packages or connects to other machines.",
    category="skills",
    annotations=Annotations(destructive=True, requires_confirmation=True),
    side_effects=("skill_write", "network"),
)


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Decides which declarations need a person's approval.

    Attributes:
        packages: Names of the packages that skills may declare without approval; `ANY` for all.
        always: Whether to ask even about packages and destinations that are allowed.
    """

    packages: frozenset[str] = frozenset({ANY})
    always: bool = False

    def needing_approval(self, block: ScriptBlock) -> tuple[list[str], list[str]]:
        """Return the packages and destinations that need a person's approval."""
        packages, destinations = list(block.dependencies), list(map(str, block.destinations))
        if self.always:
            return packages, destinations
        known = {ANY if name == ANY else canonicalize_name(name) for name in self.packages}
        return [each for each in packages if not known & {ANY, canonicalize_name(Requirement(each).name)}], []


@dataclass(frozen=True, slots=True)
class DeclarationRules:
    """The rules for the packages and destinations that programs declare.

    Attributes:
        destinations: The destinations that programs may connect to.
        policy: Decides which declarations need an approval.
    """

    destinations: frozenset[Destination]
    policy: ApprovalPolicy


def approver(approval: ApprovalGuard | None, call_id: str, user: str) -> Ask | None:
    """Return a function that asks for approval on behalf of one call, or None if nobody can be asked."""
    if approval is None or not approval.can_ask:
        return None

    async def ask(arguments: dict[str, Any]) -> str:
        return await approval.confirm(QUESTION, arguments, call_id=call_id, user=user)

    return ask


def is_approved(skill: Skill) -> bool:
    """Return whether a person approved the declarations of this version."""
    return "approved_by" in skill.provenance


def with_approval_of(skill: Skill, parsed: ParsedProposal) -> ParsedProposal:
    """Return a proposal with the approval of a skill that has exactly the same files."""
    record = {key: skill.provenance[key] for key in ("approved", "approved_by") if key in skill.provenance}
    proposal = parsed.proposal
    return replace(parsed, proposal=replace(proposal, provenance={**proposal.provenance, **record}))


async def approve(parsed: ParsedProposal, policy: ApprovalPolicy, ask: Ask | None) -> ParsedProposal:
    """Return the proposal with a record of the approval of its declarations.

    Raises:
        SkillRefused: Nobody can be asked, or the declarations are too long to be shown to a person.
        ToolFailure: The person did not agree.
    """
    packages, destinations = policy.needing_approval(parsed.block)
    if not packages and not destinations:
        return parsed
    proposal = parsed.proposal
    size = len(json.dumps({"packages": packages, "connects_to": destinations}, indent=2))
    if size > MOST_ASKED:  # the rest would not be shown, and an approval covers only what was shown
        text = (
            f"The code declares {size:,} characters of packages and destinations: use at most {MOST_ASKED:,}, so that "
            "the person who is asked for approval can read them."
        )
        raise SkillRefused(proposal.name, [ProposalProblem("dependencies", text)])
    what = "; ".join(
        f"{kind} {', '.join(found)}"
        for kind, found in (("packages:", packages), ("connects to:", destinations))
        if found
    )
    if ask is None:
        part: Part = "dependencies" if packages else "destinations"
        names = ", ".join(f'"{Requirement(each).name}"' for each in packages)
        remedy = f"`packages = [{names}]`" if packages and not policy.always else "`ask_always = false`"
        text = (
            f"The code needs a person's approval ({what}), and nobody can be asked here. Write the code without these "
            f"packages or connections, or ask the operator to set {remedy} under `[skills]` in config.toml."
        )
        raise SkillRefused(proposal.name, [ProposalProblem(part, text)])
    shown = {"name": proposal.name, "packages": packages, "connects_to": destinations}
    details = {"description": proposal.description, "code": proposal.code, "tests": proposal.tests}
    who = await ask({**shown, **details})
    record = {"approved": what[:MOST_CHARS], "approved_by": who[:MOST_CHARS]}
    return replace(parsed, proposal=replace(proposal, provenance={**proposal.provenance, **record}))
