"""Models of request and response bodies, from which the OpenAPI document is generated."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from engine.contract.spec import Band
from engine.contract.turn import Turn
from engine.interfaces.http.tokens import Caller
from engine.turn.paging import PAGE

Format = Literal["openai", "openai-responses", "anthropic", "gemini", "mcp", "spec"]
Name = Annotated[str, Field(min_length=1, max_length=400)]
Feature = Annotated[str, Field(min_length=1, max_length=64)]
CallId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


def _with_example(example: dict[str, Any], extra: Literal["allow", "ignore", "forbid"] = "forbid") -> ConfigDict:
    """Return the configuration of a model whose schema shows this example."""
    return ConfigDict(extra=extra, json_schema_extra={"examples": [example]})


class StrictBody(BaseModel):
    """A body that rejects unknown fields."""

    model_config = ConfigDict(extra="forbid")


class ListOptions(StrictBody):
    """The options of a turn that a client may set. The user and the permissions come from the token (`turn_of`)."""

    query: Annotated[str, Field(max_length=2_000)] | None = None
    features: Annotated[list[Feature], Field(max_length=16)] = []
    include_deferred_tools: bool = True
    use_tool_search_flow: bool = False
    band: Band = Field("GREEN", description="The risk band. It can only be stricter than the server's own.")
    format: Format = "spec"
    after: str = Field("", max_length=400, description="`next` from the previous page. Empty for the first page.")
    limit: int = Field(PAGE, ge=1, le=PAGE, description="Maximum number of skills. A query returns only one page.")

    def turn_of(self, caller: Caller) -> Turn:
        """Return the turn that these options describe for the caller."""
        return Turn(
            query=self.query,
            features=frozenset(self.features),
            include_deferred_tools=self.include_deferred_tools,
            use_tool_search_flow=self.use_tool_search_flow,
            band=self.band,
            **turn_fields(caller),
        )


class CallBody(StrictBody):
    """One call. `call_id` can be used to cancel the call; it must be unique among the user's running calls."""

    model_config = _with_example({"name": "execute", "arguments": {"language": "python", "code": "6 * 7"}})

    name: Name
    arguments: dict[str, Any] = {}
    call_id: CallId | None = None
    band: Band = Field("GREEN", description="The risk band. It can only be stricter than the server's own.")
    query: (
        Annotated[str, Field(max_length=2_000, description="The message that the call is made for, if any.")] | None
    ) = None

    def turn_of(self, caller: Caller) -> Turn:
        """Return the turn that the call belongs to."""
        return Turn(query=self.query, band=self.band, **turn_fields(caller))


class ExecuteBody(BaseModel):
    """A call in the module protocol. `user_id` is part of the protocol but ignored: the token determines the user."""

    model_config = _with_example(
        {"tool_name": "knackbox.execute", "arguments": {"language": "bash", "code": "echo hi"}}, extra="ignore"
    )

    tool_name: Annotated[str, Field(max_length=400)]
    arguments: dict[str, Any] = {}
    user_id: Any = None


class ApprovalBody(StrictBody):
    """An answer to a waiting call. `digest` must match the waiting call, so that no other call is approved."""

    model_config = _with_example({"approved": True, "digest": "9f86d081884c7d65…", "reason": "the figures are right"})

    approved: StrictBool
    digest: Annotated[str, Field(max_length=128)]
    reason: Annotated[str, Field(max_length=500)] = ""


class Health(BaseModel):
    """The state of the server. Nothing else is available without a token."""

    status: Literal["ok"]
    version: str


class ExecuteAnswer(BaseModel):
    """The result of a call in the module protocol."""

    model_config = _with_example(
        {"tool_name": "knackbox.execute", "success": True, "result": {"stdout": "hi\n"}, "error": None}, extra="ignore"
    )

    tool_name: str
    success: bool
    result: Any = None
    error: str | None = None


class ManifestResponse(BaseModel):
    """The tools of a module, as the module protocol lists them."""

    module_name: str
    description: str
    tools: list[dict[str, Any]]


class Module(BaseModel):
    """This engine or a module that it uses. `reachable` is null until the module is first contacted."""

    name: str
    kind: str
    description: str
    tools: list[str]
    reachable: bool | None
    error: str


class ModuleList(BaseModel):
    """All modules, this engine first."""

    modules: list[Module]


class ToolList(BaseModel):
    """Tools in the requested format. `next` is the `after` value of the next page, or "" on the last page."""

    format: Format
    tools: list[dict[str, Any]]
    next: str


class CallAnswer(BaseModel):
    """The complete result of a call, with the call's id."""

    model_config = _with_example(
        {
            "call_id": "c1",
            "success": True,
            "output": {"end": "ok", "exit_code": 0, "value": 42, "stdout": "", "stderr": "", "limits_hit": []},
            "message": "42",
            "error": "",
            "failure": None,
            "side_effects": ["executed:python"],
            "audit": {"tool": "execute", "call_id": "9b1c", "duration_ms": 6.2, "attempts": 1, "end": "ok"},
        },
        extra="ignore",
    )

    call_id: str
    success: bool
    output: Any
    message: str | None
    error: str
    failure: dict[str, Any] | None
    side_effects: list[str]
    audit: dict[str, Any]


class AuditList(BaseModel):
    """Recorded calls, the newest first."""

    calls: list[dict[str, Any]]


class Approval(BaseModel):
    """A call that waits for approval. The answer must repeat its `digest`."""

    id: str
    call_id: str
    user: str
    agent: str
    token: str
    tool: str
    summary: str
    digest: str
    expires: str
    arguments_shown: str | None = None
    arguments: dict[str, Any] | None = None


class ApprovalList(BaseModel):
    """The calls that wait for the caller's answer."""

    approvals: list[Approval]


class ProblemDetails(BaseModel):
    """An error as problem details (RFC 9457)."""

    model_config = _with_example(
        {
            "type": "about:blank",
            "title": "Not Found",
            "status": 404,
            "detail": "There is no tool called 'exekute'; nothing was run. Nearest: execute.",
        },
        extra="allow",
    )

    type: str
    title: str
    status: int
    detail: str


def turn_fields(caller: Caller) -> dict[str, Any]:
    """Return the fields of a turn that only the token determines."""
    return {
        "user": caller.user,
        "agent": caller.agent,
        "permission": caller.permission,
        "modules": caller.modules,
        "caps": caller.caps,
    }
