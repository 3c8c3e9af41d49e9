"""`build_registry_from_tool_service`: creates a registry from another framework's tool service (REG-3)."""

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
    """A service that provides tool definitions, and callables by name.

    Attributes:
        definitions: Specs, or objects in the format of model providers: ``{"name", "description", "parameters"}`` (or
            ``"input_schema"``), optionally inside ``{"type": "function", "function": {…}}``.
        callables: Tools, or functions that `engine.registry.callable.as_tool` accepts.
    """

    def definitions(self) -> Iterable[ToolSpec | Mapping[str, Any]]: ...

    def callables(self) -> Mapping[str, Callable[..., Any] | Tool]: ...


@dataclass(slots=True)
class _Report:
    """Collects problems; if strict, raises the first one."""

    strict: bool
    problems: list[str]

    def note(self, problem: str) -> None:
        if self.strict:
            raise RegistryError(problem)
        _log.warning("%s It was skipped.", problem)
        self.problems.append(problem)


def build_registry_from_tool_service(
    tool_service: ToolService, strict: bool = False, name: str = "service"
) -> Registry:
    """Create a registry whose only source has a tool for each definition that comes with a callable.

    Args:
        tool_service: The service.
        strict: Whether it is an error if a definition has no callable, a callable has no definition, or a callable does
            not accept the parameters of its definition. Otherwise, each of these is skipped, logged, and listed in
            `Registry.problems`.
        name: The name of the source.

    Raises:
        RegistryError: Two definitions have the same name; or, if strict, something would have been skipped.
    """
    report = _Report(strict, [])
    callables = dict(tool_service.callables())
    specs = [spec for each in tool_service.definitions() if (spec := _spec(each, report)) is not None]
    tools = []
    for spec in specs:
        if spec.name not in callables:
            report.note(f"The tool {spec.name!r} is defined, but the service has no callable with this name.")
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
        report.note(f"The parameters of {inner['name']!r} are not a JSON Schema.")
        return None
    return ToolSpec(inner["name"], str(inner.get("description") or inner["name"]), given)
