"""`build_registry_from_tool_service`: a registry of what another framework calls a tool service (REG-3)."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from engine.contract.source import Tool
from engine.contract.spec import ToolSpec
from engine.registry.callable import as_tool
from engine.registry.registry import Registry
from engine.registry.static import RegistryError, StaticSource

_log = logging.getLogger("knackbox.registry")


class ToolService(Protocol):
    """Definitions on one side, callables by name on the other.

    definitions: specs, or objects as model providers take them: ``{"name", "description", "parameters"}`` (or
    ``"input_schema"``), also inside of ``{"type": "function", "function": {…}}``.
    callables: functions (`engine.registry.callable.as_tool` says of which kind) or tools.
    """

    def definitions(self) -> Iterable[ToolSpec | Mapping[str, Any]]: ...

    def callables(self) -> Mapping[str, Callable[..., Any] | Tool]: ...


@dataclass(slots=True)
class _Report:
    """Raises what is wrong when it is strict, else collects it."""

    strict: bool
    problems: list[str]

    def note(self, problem: str) -> None:
        if self.strict:
            raise RegistryError(problem)
        _log.warning("%s It was left out.", problem)
        self.problems.append(problem)


def build_registry_from_tool_service(
    tool_service: ToolService, strict: bool = False, name: str = "service"
) -> Registry:
    """A registry with one static source, called `name`, of every definition that has its callable.

    strict: raise RegistryError for the first definition without a callable, callable without a definition, or pair
    that does not fit together; else these are left out, logged, and in `Registry.problems`. Two of one name are always
    an error.
    """
    report = _Report(strict, [])
    callables = dict(tool_service.callables())
    specs = [spec for each in tool_service.definitions() if (spec := _spec(each, report)) is not None]
    tools = []
    for spec in specs:
        if spec.name not in callables:
            report.note(f"The tool {spec.name!r} is defined, but the service has no callable of this name.")
            continue
        try:
            tools.append(as_tool(spec, callables[spec.name]))
        except RegistryError as error:
            report.note(str(error))
    for called in sorted(callables.keys() - {spec.name for spec in specs}):
        report.note(f"The callable {called!r} of the service has no definition.")
    return Registry([StaticSource(name, tools)], problems=report.problems)


def _spec(definition: ToolSpec | Mapping[str, Any], report: _Report) -> ToolSpec | None:
    if isinstance(definition, ToolSpec):
        return definition
    inner = definition.get("function", definition)
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str) or not inner["name"]:
        report.note(f"A definition of the service has no name: {str(definition)[:100]}.")
        return None
    given = inner.get("parameters", inner.get("input_schema", {"type": "object", "properties": {}}))
    if not isinstance(given, Mapping):
        report.note(f"The parameters of {inner['name']!r} are no JSON Schema.")
        return None
    return ToolSpec(inner["name"], str(inner.get("description") or inner["name"]), given)
