"""`@tool`: turns a typed function with a docstring into a `Tool`. The schema is derived from its signature.

Importing a file registers nothing: the decorator only returns the tool, and a pack adds it to a source.
"""

import inspect
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NotRequired, Protocol, cast, get_args, get_origin, get_type_hints, overload, runtime_checkable

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict  # before Python 3.12, pydantic cannot use the one from `typing`

from engine.contract.context import CallContext, Produced
from engine.contract.failure import FailureClass, ToolFailure
from engine.contract.spec import DERIVED, Annotations, Cost, PermissionLevel, SafetyClass, Tag, Tier, ToolSpec
from engine.registry.daemon_thread import in_daemon_thread
from engine.registry.docstring import split_docstring
from engine.registry.output_schema import output_schema
from engine.registry.static import RegistryError, check_tag

# Accepted by every provider as a function name. Dots are reserved for remote modules.
_NAME = re.compile(r"^[a-zA-Z][a-zA-Z0-9_-]{0,63}$")

Function = Callable[..., Any]


@runtime_checkable
class BlockingTool(Protocol):
    """A tool that blocks. Dispatch calls `run_blocking` in a worker thread; `run` uses a daemon thread."""

    @property
    def spec(self) -> ToolSpec: ...

    async def run(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any: ...

    def run_blocking(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any: ...


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """An async function as a tool. Arguments are converted to the annotated types."""

    spec: ToolSpec
    function: Callable[..., Coroutine[Any, Any, Any]]
    takes_context: bool
    arguments: TypeAdapter[dict[str, Any]]

    def run(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Coroutine[Any, Any, Any]:
        """Run the function.

        Raises:
            ToolFailure: An argument does not match its annotation. The function was not called, and the failure's class
                is DIAGNOSTIC.
        """
        typed = _typed(self.spec.name, self.arguments, arguments)
        return self.function(ctx, **typed) if self.takes_context else self.function(**typed)


@dataclass(frozen=True, slots=True)
class BlockingFunctionTool:
    """A sync function as a tool. It always runs in a worker thread."""

    spec: ToolSpec
    function: Function
    takes_context: bool
    arguments: TypeAdapter[dict[str, Any]]

    async def run(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        return await in_daemon_thread(partial(self.run_blocking, ctx, arguments))

    def run_blocking(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        """Run the function.

        Raises:
            ToolFailure: An argument does not match its annotation. The function was not called, and the failure's class
                is DIAGNOSTIC.
        """
        typed = _typed(self.spec.name, self.arguments, arguments)
        return self.function(ctx, **typed) if self.takes_context else self.function(**typed)


@dataclass(frozen=True, slots=True)
class _Decorator:
    """The return type of `@tool(...)`: async functions become a FunctionTool, sync ones a BlockingFunctionTool."""

    build: Callable[[Function], FunctionTool | BlockingFunctionTool]

    @overload
    def __call__(self, function: Callable[..., Coroutine[Any, Any, Any]]) -> FunctionTool: ...

    @overload
    def __call__(self, function: Function) -> BlockingFunctionTool: ...

    def __call__(self, function: Function) -> FunctionTool | BlockingFunctionTool:
        return self.build(function)


def tool(
    *,
    category: str = "general",
    name: str | None = None,
    description: str | None = None,
    short_description: str = "",
    version: str = "1",
    requires: tuple[str, ...] = (),
    features: tuple[str, ...] = (),
    annotations: Annotations | None = None,
    timeout_s: float = 30.0,
    side_effects: tuple[str, ...] = (),
    aliases: tuple[str, ...] = (),
    tier: Tier = "medium",
    cost: Cost = "free",
    safety_class: SafetyClass = "LOW",
    required_permission: PermissionLevel = "guest",
    caps_required: tuple[str, ...] = (),
    defer_loading: bool = False,
    idempotency_key_fields: tuple[str, ...] = (),
    cooldown_seconds: float = 0.0,
    daily_limit: int = 0,
    requires_gate: bool = False,
    private_arguments: tuple[str, ...] = (),
    tag: Tag | None = None,
    meta: Mapping[str, Any] | None = None,
) -> _Decorator:
    """Turn a typed function into a tool.

    The first parameter may be a `CallContext`; all others are arguments of the tool. By default the tool has the name
    of the function, and its description is the docstring. The JSON Schema is derived from annotations and defaults, the
    output schema from the return annotation. For the annotation `Produced[T]`, the output schema describes T. A sync
    function always runs in a worker thread, so it may block. The arguments of `tool` are fields of `ToolSpec`.

    Raises:
        TypeError: The function cannot be a tool: it has ``*args``, ``**kwargs`` or a parameter without a type, or it
            has no description. The error is raised when the function is decorated.
    """

    def build(function: Function) -> FunctionTool | BlockingFunctionTool:
        takes_context, parameters = _parameters(function)
        adapter = _adapter(parameters)
        text, described = split_docstring(function.__doc__, frozenset(parameters))
        spec = ToolSpec(
            name=name or function.__name__,
            description=description or text,
            parameters=_schema(adapter, parameters, described),
            version=version,
            short_description=short_description,
            tier=tier,
            category=category,
            cost=cost,
            safety_class=safety_class,
            required_permission=required_permission,
            caps_required=caps_required,
            requires=requires,
            features=features,
            side_effects=side_effects,
            annotations=annotations or DERIVED,
            aliases=aliases,
            defer_loading=defer_loading,
            timeout_s=timeout_s,
            idempotency_key_fields=idempotency_key_fields,
            cooldown_seconds=cooldown_seconds,
            daily_limit=daily_limit,
            requires_gate=requires_gate,
            private_arguments=private_arguments,
            tag=tag,
            meta=meta or {},
            returns=_returns(function),
        )
        _refuse_unusable(spec)
        if inspect.iscoroutinefunction(function):
            return FunctionTool(spec, function, takes_context, adapter)
        return BlockingFunctionTool(spec, function, takes_context, adapter)

    return _Decorator(build)


def _refuse_unusable(spec: ToolSpec) -> None:
    for each in (spec.name, *spec.aliases):
        if not _NAME.match(each):
            raise TypeError(f"{each!r} is not a valid tool name: use a letter, then up to 63 letters, digits, _ or -.")
    if not spec.description:
        raise TypeError(f"Tool {spec.name!r} has no description: add a docstring to the function.")
    if spec.timeout_s <= 0:
        raise TypeError(f"Tool {spec.name!r}: timeout_s must be more than 0 seconds.")
    try:
        check_tag(spec)
    except RegistryError as error:
        raise TypeError(str(error)) from error


def _parameters(function: Function) -> tuple[bool, dict[str, inspect.Parameter]]:
    """Return whether the first parameter is the context, and the other parameters with resolved annotations."""
    hints = get_type_hints(function, include_extras=True)
    listed = list(inspect.signature(function).parameters.values())
    takes_context = bool(listed) and hints.get(listed[0].name) is CallContext
    arguments = {}
    for parameter in listed[1:] if takes_context else listed:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{function.__qualname__}: {parameter} cannot be an argument of a tool.")
        if parameter.name not in hints:
            raise TypeError(f"{function.__qualname__}: parameter {parameter.name!r} needs a type annotation.")
        arguments[parameter.name] = parameter.replace(annotation=hints[parameter.name])
    return takes_context, arguments


def _returns(function: Function) -> dict[str, Any] | None:
    """Derive the output schema from the return annotation, if it has one."""
    returned = get_type_hints(function, include_extras=True).get("return")
    if get_origin(returned) is Produced:
        (returned,) = get_args(returned)
    elif any(each is Produced or get_origin(each) is Produced for each in (returned, *get_args(returned))):
        return None
    return output_schema(returned)


def _adapter(parameters: Mapping[str, inspect.Parameter]) -> TypeAdapter[dict[str, Any]]:
    """Create a validator of the arguments object.

    It validates a TypedDict, which allows any argument name and yields a plain dict. Absent arguments stay absent, so
    that the function's defaults are used.
    """
    fields = {
        name: each.annotation if each.default is each.empty else NotRequired[each.annotation]
        for name, each in parameters.items()
    }
    arguments = TypedDict("Arguments", fields)  # type: ignore[misc]
    strict = with_config(ConfigDict(extra="forbid", arbitrary_types_allowed=True))(arguments)
    return TypeAdapter(cast("type[dict[str, Any]]", strict))


def _schema(
    adapter: TypeAdapter[dict[str, Any]], parameters: Mapping[str, inspect.Parameter], described: Mapping[str, str]
) -> dict[str, Any]:
    schema: dict[str, Any] = _without_titles(adapter.json_schema())
    schema.setdefault("properties", {})
    for name, parameter in parameters.items():
        field = schema["properties"][name]
        if name in described:
            field.setdefault("description", described[name])
        if parameter.default is not parameter.empty:
            field["default"] = to_jsonable_python(parameter.default)
    return schema


def _without_titles(node: Any, *, names: bool = False) -> Any:
    """Remove pydantic's titles, which cost tokens.

    Args:
        node: A JSON Schema, or a part of one.
        names: Whether the keys of `node` are names of fields, which are all kept, even if one of them is "title".
    """
    if isinstance(node, dict):
        return {
            key: _without_titles(value, names=key in {"properties", "$defs"} and not names)
            for key, value in node.items()
            if names or key != "title"
        }
    if isinstance(node, list):
        return [_without_titles(value) for value in node]
    return node


def _typed(name: str, adapter: TypeAdapter[dict[str, Any]], arguments: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return adapter.validate_python(arguments)
    except ValidationError as error:
        lines = [
            f"- `{'.'.join(map(str, each['loc'])) or 'arguments'}`: {each['msg']}; given {_short(each['input'])}"
            for each in error.errors(include_url=False, include_context=False)[:5]
        ]
        raise ToolFailure(
            f"{name}: invalid arguments, nothing was run.\n" + "\n".join(lines),
            failure_class=FailureClass.DIAGNOSTIC,
            reason="invalid_arguments",
            may_have_started=False,
            end="refused",
        ) from error


def _short(value: Any, limit: int = 200) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
