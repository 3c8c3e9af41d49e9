"""What clients may send, and what they get: the models behind the OpenAPI document."""

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
    """The configuration of a model whose schema shows this example."""
    return ConfigDict(extra=extra, json_schema_extra={"examples": [example]})


class Closed(BaseModel):
    """A body in which an unknown field is a mistake worth telling."""

    model_config = ConfigDict(extra="forbid")


class ListOptions(Closed):
    """What a client may say of its turn. Who asks, and what they may, is the token's (`turn_of`)."""

    query: Annotated[str, Field(max_length=2_000)] | None = None
    features: Annotated[list[Feature], Field(max_length=16)] = []
    include_deferred_tools: bool = True
    use_tool_search_flow: bool = False
    band: Band = Field("GREEN", description="How careful to be; it can only tighten what the server is set to.")
    format: Format = "spec"
    after: str = Field("", max_length=400, description="`next` of the page before; nothing for the first page.")
    limit: int = Field(PAGE, ge=1, le=PAGE, description="Learned skills on a page, at most; a query has one page.")

    def turn_of(self, caller: Caller) -> Turn:
        return Turn(
            query=self.query,
            features=frozenset(self.features),
            include_deferred_tools=self.include_deferred_tools,
            use_tool_search_flow=self.use_tool_search_flow,
            band=self.band,
            **who(caller),
        )


class CallBody(Closed):
    """One call. call_id: to cancel it by, unique among the user's running calls."""

    model_config = _with_example({"name": "execute", "arguments": {"language": "python", "code": "6 * 7"}})

    name: Name
    arguments: dict[str, Any] = {}
    call_id: CallId | None = None
    band: Band = Field("GREEN", description="How careful to be; it can only tighten what the server is set to.")

    def turn_of(self, caller: Caller) -> Turn:
        return Turn(band=self.band, **who(caller))


class ExecuteBody(BaseModel):
    """A call by the module protocol. user_id: part of the protocol, and ignored: the token says who the user is."""

    model_config = _with_example(
        {"tool_name": "knackbox.execute", "arguments": {"language": "bash", "code": "echo hi"}}, extra="ignore"
    )

    tool_name: Annotated[str, Field(max_length=400)]
    arguments: dict[str, Any] = {}
    user_id: Any = None


class ApprovalBody(Closed):
    """digest: the one of the waiting call, so that what is approved is what was read."""

    model_config = _with_example({"approved": True, "digest": "9f86d081884c7d65…", "reason": "the figures are right"})

    approved: StrictBool
    digest: Annotated[str, Field(max_length=128)]
    reason: Annotated[str, Field(max_length=500)] = ""


class Health(BaseModel):
    """Nothing else is told without a token."""

    status: Literal["ok"]
    version: str


class ExecuteAnswer(BaseModel):
    """The answer of the module protocol."""

    model_config = _with_example(
        {"tool_name": "knackbox.execute", "success": True, "result": {"stdout": "hi\n"}, "error": None}, extra="ignore"
    )

    tool_name: str
    success: bool
    result: Any = None
    error: str | None = None


class Manifest(BaseModel):
    """The manifest of the module protocol."""

    module_name: str
    description: str
    tools: list[dict[str, Any]]


class Module(BaseModel):
    """One module: this engine, or one it knows. reachable: null when it was not asked yet."""

    name: str
    kind: str
    description: str
    tools: list[str]
    reachable: bool | None
    error: str


class ModuleList(BaseModel):
    """This engine first."""

    modules: list[Module]


class ToolList(BaseModel):
    """Tools in the format that was asked for. next: what to ask for the following page with; "" for the last."""

    format: Format
    tools: list[dict[str, Any]]
    next: str


class CallAnswer(BaseModel):
    """A whole ToolResult, with the id of its call."""

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
    """Calls on record, the newest first."""

    calls: list[dict[str, Any]]


class Approval(BaseModel):
    """A call that waits. digest: what an answer has to bring back."""

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
    """What waits for the caller's answer."""

    approvals: list[Approval]


class ProblemDetails(BaseModel):
    """An error, by RFC 9457."""

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


def who(caller: Caller) -> dict[str, Any]:
    """The part of a turn that is the token's alone."""
    return {
        "user": caller.user,
        "agent": caller.agent,
        "permission": caller.permission,
        "modules": caller.modules,
        "caps": caller.caps,
    }
