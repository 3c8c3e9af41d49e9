"""`as_tool`: a function that somebody wrote elsewhere, under a spec that somebody wrote for it."""

import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from engine.contract.context import CallContext
from engine.contract.source import Tool
from engine.contract.spec import ToolSpec
from engine.registry.daemon_thread import in_daemon_thread
from engine.registry.static import RegistryError

_CONTEXT = "ctx"


@dataclass(frozen=True, slots=True)
class CallableTool:
    """An async function, or another tool's run, with arguments as they came."""

    spec: ToolSpec
    function: Callable[..., Coroutine[Any, Any, Any]]
    takes_context: bool

    def run(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Coroutine[Any, Any, Any]:
        return self.function(ctx, **arguments) if self.takes_context else self.function(**arguments)


@dataclass(frozen=True, slots=True)
class BlockingCallableTool:
    """A sync function. Dispatch runs it in its worker threads; `run` alone in one of its own."""

    spec: ToolSpec
    function: Callable[..., Any]
    takes_context: bool

    async def run(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        return await in_daemon_thread(partial(self.run_blocking, ctx, arguments))

    def run_blocking(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        return self.function(ctx, **arguments) if self.takes_context else self.function(**arguments)


@dataclass(frozen=True, slots=True)
class RespecifiedTool:
    """A tool under another spec."""

    spec: ToolSpec
    tool: Tool

    def run(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Coroutine[Any, Any, Any]:
        return self.tool.run(ctx, arguments)


@dataclass(frozen=True, slots=True)
class RespecifiedBlockingTool(RespecifiedTool):
    """The same for one whose work blocks."""

    def run_blocking(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        return self.tool.run_blocking(ctx, arguments)  # type: ignore[attr-defined]  # what it was made for


def as_tool(spec: ToolSpec, target: Any) -> Tool:
    """A `Tool`, or a function that takes the arguments by name, after a first one called `ctx` if it has that.

    Raises RegistryError when it is neither, or does not take what the spec's parameters offer.
    """
    if isinstance(target, Tool):
        _agree(spec, *_asked_by(target.spec.parameters))
        return (RespecifiedBlockingTool if hasattr(target, "run_blocking") else RespecifiedTool)(spec, target)
    if not callable(target) or inspect.isclass(target):
        raise RegistryError(f"{spec.name}: {type(target).__name__} is neither a tool nor a function.")
    try:
        listed = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError) as error:
        raise RegistryError(f"{spec.name}: its function does not say what it takes ({error}).") from error
    takes_context = bool(listed) and (listed[0].name == _CONTEXT or listed[0].annotation is CallContext)
    taken = listed[1:] if takes_context else listed
    kinds = [each for each in taken if each.kind in {each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY}]
    open_ended = any(each.kind is each.VAR_KEYWORD for each in taken)
    required = {each.name for each in kinds if each.default is each.empty}
    required |= {each.name for each in taken if each.kind is each.POSITIONAL_ONLY}
    _agree(spec, None if open_ended else {each.name for each in kinds}, required)
    made = CallableTool if _is_async(target) else BlockingCallableTool
    return made(spec, target, takes_context)


def _is_async(target: Any) -> bool:
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(getattr(target, "__call__", None))  # noqa: B004 -- an object with an async __call__


def _asked_by(schema: Mapping[str, Any]) -> tuple[set[str] | None, set[str]]:
    closed = schema.get("additionalProperties") is False
    return set(schema.get("properties", {})) if closed else None, set(schema.get("required", ()))


def _agree(spec: ToolSpec, taken: set[str] | None, required: set[str]) -> None:
    """taken: every name it takes, None for any. required: those it cannot do without."""
    offered = set(spec.parameters.get("properties", {}))
    unknown = sorted(offered - taken) if taken is not None else []
    if unknown:
        raise RegistryError(f"{spec.name}: its parameters offer {', '.join(unknown)}, which its function lacks.")
    lacking = sorted(required - set(spec.parameters.get("required", ())))
    if lacking:
        raise RegistryError(
            f"{spec.name}: its function needs {', '.join(lacking)}, which its parameters do not require."
        )
