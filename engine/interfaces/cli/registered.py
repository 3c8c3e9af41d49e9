"""`RegistryKind`: the kinds of registry items, with functions that recognize an item's kind and summarize an item."""

from dataclasses import fields
from enum import StrEnum
from typing import Any

from engine.contract.agent import AgentSpec
from engine.contract.prompt import PromptSpec
from engine.contract.spec import ToolSpec
from engine.interfaces.cli.shared import printable
from engine.registry.envelope import ToolEnvelope
from engine.registry.static import RegistryError
from engine.registry.updates import Subject

SHOWN = 60  # characters of a description or template in a list
_SUBJECTS: dict[str, Subject] = {"tool": "tools", "prompt": "prompts", "agent": "agents"}


class RegistryKind(StrEnum):
    """The kind of a registry item, as the command line names it."""

    TOOL = "tool"
    PROMPT = "prompt"
    AGENT = "agent"

    @property
    def subject(self) -> Subject:
        """The name of the kind in the registries."""
        return _SUBJECTS[self.value]


_FIELDS: dict[RegistryKind, frozenset[str]] = {
    RegistryKind.TOOL: frozenset(ToolEnvelope.model_fields),
    RegistryKind.PROMPT: frozenset(each.name for each in fields(PromptSpec)),
    RegistryKind.AGENT: frozenset(each.name for each in fields(AgentSpec)),
}


def kind_of(envelope: dict[str, Any]) -> RegistryKind:
    """Return the kind of item in an envelope (a registry item as JSON), recognized by fields that no other kind has.

    Raises:
        RegistryError: The envelope has no field that identifies its kind, or has fields of several kinds.
    """
    kinds = []
    for kind, own in _FIELDS.items():
        others = frozenset[str]().union(*(known for other, known in _FIELDS.items() if other is not kind))
        if envelope.keys() & (own - others):
            kinds.append(kind)
    if len(kinds) != 1:
        problem = "has fields of several kinds" if kinds else "has no field that identifies its kind"
        item = str(envelope.get("spec_id"))[:100]
        raise RegistryError(f"{item} {problem}. Add --kind tool, prompt or agent. Nothing was registered.")
    return kinds[0]


def summary_fields(item: ToolSpec | PromptSpec | AgentSpec) -> dict[str, str]:
    """Return the fields that a list shows for an item besides its id."""
    match item:
        case ToolSpec():
            return {"name": item.name, "version": item.version, "adapter_path": item.adapter_path}
        case PromptSpec():
            return {"name": "", "template": item.template, "desc": item.desc}
        case AgentSpec():
            return {"name": item.display_name, "desc": item.desc}


def shorten(text: str) -> str:
    """Return text as one short line."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"
