"""What a proposal declares, and a person's yes to it: packages and destinations are approved when a skill is made.

What the operator's configuration allows needs no question. A yes never opens what the operator has not: destinations
outside `[egress]` `allow` are refused before anybody is asked.
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
from engine.contract.spec import Annotations, ToolSpec
from engine.policy.approval import Approval

ANY = "*"
MOST_ASKED = 1_500  # characters of what is declared, as it is shown; every way to ask shows 2,000 at least

# Asks a person about these arguments; says who agreed. Raises ToolFailure when nobody did.
Ask = Callable[[dict[str, Any]], Awaitable[str]]

QUESTION = ToolSpec(
    name="create_skill",
    description="Keep a skill that installs packages or connects somewhere.",
    category="skills",
    annotations=Annotations(destructive=True, requires_confirmation=True),
    side_effects=("skill_write", "network"),
)


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """packages: names that skills may declare unasked; `ANY` for all. always: ask about what is allowed, too."""

    packages: frozenset[str] = frozenset({ANY})
    always: bool = False

    def needing_approval(self, block: ScriptBlock) -> tuple[list[str], list[str]]:
        """The packages and destinations that need a person's yes. The proposal passed the static checks."""
        packages, destinations = list(block.dependencies), list(map(str, block.destinations))
        if self.always:
            return packages, destinations
        known = {ANY if name == ANY else canonicalize_name(name) for name in self.packages}
        return [each for each in packages if not known & {ANY, canonicalize_name(Requirement(each).name)}], []


def approver(approval: Approval | None, call_id: str, user: str) -> Ask | None:
    """To ask in the name of one call; None where nobody can be asked."""
    if approval is None or not approval.can_ask:
        return None

    async def ask(arguments: dict[str, Any]) -> str:
        return await approval.confirm(QUESTION, arguments, call_id=call_id, user=user)

    return ask


async def approve(parsed: ParsedProposal, policy: ApprovalPolicy, ask: Ask | None) -> ParsedProposal:
    """The proposal, with who approved what it declares. Raises SkillRefused when nobody can be asked, ToolFailure when
    the answer is not a yes.
    """
    packages, destinations = policy.needing_approval(parsed.block)
    if not packages and not destinations:
        return parsed
    proposal = parsed.proposal
    size = len(json.dumps({"packages": packages, "connects_to": destinations}, indent=2))
    if size > MOST_ASKED:  # what comes after it would not be seen, and a yes is for what was seen
        text = f"It declares {size:,} characters of packages and destinations: keep it to {MOST_ASKED:,}, so that "
        raise SkillRefused(
            proposal.name, [ProposalProblem("dependencies", f"{text}the person who is asked can read it.")]
        )
    what = "; ".join(
        f"{kind} {', '.join(found)}"
        for kind, found in (("packages:", packages), ("connects to:", destinations))
        if found
    )
    if ask is None:
        part: Part = "dependencies" if packages else "destinations"
        names = ", ".join(f'"{Requirement(each).name}"' for each in packages)
        remedy = f"`packages = [{names}]`" if packages and not policy.always else "`ask_always = false`"
        text = f"It needs a person's approval ({what}), and nobody can be asked here. The operator can allow it: "
        raise SkillRefused(proposal.name, [ProposalProblem(part, f"{text}`[skills]` with {remedy} in config.toml.")])
    shown = {"name": proposal.name, "packages": packages, "connects_to": destinations}
    details = {"description": proposal.description, "code": proposal.code, "tests": proposal.tests}
    who = await ask({**shown, **details})
    record = {"approved": what[:MOST_CHARS], "approved_by": who[:MOST_CHARS]}
    return replace(parsed, proposal=replace(proposal, provenance={**proposal.provenance, **record}))
