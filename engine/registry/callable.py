"""`as_tool`: turns a function and a spec into a tool."""

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
    """A tool that runs an async function. Arguments are passed unchanged."""

    spec: ToolSpec
    function: Callable[..., Coroutine[Any, Any, Any]]
    takes_context: bool

    def run(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Coroutine[Any, Any, Any]:
        return self.function(ctx, **arguments) if self.takes_context else self.function(**arguments)


@dataclass(frozen=True, slots=True)
class BlockingCallableTool:
    """A tool that runs a sync function. Dispatch runs it in a worker thread; calling `run` uses a daemon thread."""

    spec: ToolSpec
    function: Callable[..., Any]
    takes_context: bool

    async def run(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        return await in_daemon_thread(partial(self.run_blocking, ctx, arguments))

    def run_blocking(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        return self.function(ctx, **arguments) if self.takes_context else self.function(**arguments)


@dataclass(frozen=True, slots=True)
class RespecifiedTool:
    """A wrapper that gives a tool another spec."""

    spec: ToolSpec
    tool: Tool

    def run(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Coroutine[Any, Any, Any]:
        return self.tool.run(ctx, arguments)


@dataclass(frozen=True, slots=True)
class RespecifiedBlockingTool(RespecifiedTool):
    """A wrapper that gives a blocking tool another spec."""

    def run_blocking(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        return self.tool.run_blocking(ctx, arguments)  # type: ignore[attr-defined]  # only created for blocking tools


def as_tool(spec: ToolSpec, target: Any) -> Tool:
    """Create a tool from a spec and a `Tool` or function.

    A function takes the arguments by name, after an optional first parameter called `ctx`.

    Raises:
        RegistryError: The target is neither a tool nor a function, or it does not accept the parameters of the spec.
    """
    if isinstance(target, Tool):
        _agree(spec, *_asked_by(target.spec.parameters))
        return (RespecifiedBlockingTool if hasattr(target, "run_blocking") else RespecifiedTool)(spec, target)
    if not callable(target) or inspect.isclass(target):
        raise RegistryError(f"{spec.name}: {type(target).__name__} is neither a tool nor a function.")
    try:
        listed = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError) as error:
        raise RegistryError(f"{spec.name}: its function has no signature ({error}).") from error
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
    """Check that a function's signature matches the spec.

    Args:
        spec: The spec.
        taken: The names of the parameters that the function accepts, or None if it accepts every name.
        required: The names of the parameters that the function requires.
    """
    offered = set(spec.parameters.get("properties", {}))
    unknown = sorted(offered - taken) if taken is not None else []
    if unknown:
        raise RegistryError(
            f"{spec.name}: its parameters include {', '.join(unknown)}, which its function does not accept."
        )
    lacking = sorted(required - set(spec.parameters.get("required", ())))
    if lacking:
        raise RegistryError(
            f"{spec.name}: its function requires {', '.join(lacking)}, which its parameters do not list as required."
        )
