"""Settings of tools that live elsewhere: HTTP modules and MCP servers."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from engine.app.section import Section
from engine.contract.spec import PermissionLevel


def _table(given: Any) -> Any:
    """`name=value,name=value`, as an environment variable has it, is a table; of anything else pydantic judges."""
    if not isinstance(given, str):
        return given
    pairs = [part.partition("=") for part in given.split(",") if part.strip()]
    return {name.strip(): value.strip() for name, _, value in pairs}


def _module_name(name: str) -> str:
    name = name.strip()
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise ValueError(f"{name!r} cannot name a module: use up to 64 letters, digits, _ or -")
    return name


def _http_url(url: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", url):
        raise ValueError(f"{url!r} is not an http or https URL")
    if "@" in urlsplit(url).netloc:  # every request is logged with its URL
        raise ValueError(
            "a user or password in a URL would be logged; take it out, and give a token in module_tokens "
            "(an MCP server takes headers)"
        )
    return url


ModuleName = Annotated[str, AfterValidator(_module_name)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]


class ModuleSettings(Section):
    """Tools that live elsewhere and speak HTTP (MOD-1 to MOD-4).

    module_services: URL of each module by its name. module_tokens: bearer tokens of those that want one.
    module_timeout: seconds of one call; tool_execution_timeout: of one call of a slow module, MCP servers included.
    default_guest_modules: what a guest without a persona may use. manifest_ttl: seconds a manifest counts.
    redis_url: where manifests are kept, instead of on the disk.
    trusted_modules: believe their manifests that a tool only reads, is idempotent or destroys nothing.
    """

    module_services: Annotated[Mapping[ModuleName, HttpUrl], BeforeValidator(_table)] = Field(default_factory=dict)
    module_tokens: Annotated[Mapping[ModuleName, SecretStr], BeforeValidator(_table)] = Field(default_factory=dict)
    slow_modules: tuple[ModuleName, ...] = ()
    trusted_modules: tuple[ModuleName, ...] = ()
    module_timeout: float = Field(default=30.0, gt=0)
    tool_execution_timeout: float = Field(default=120.0, gt=0)
    default_guest_modules: tuple[ModuleName, ...] = ()
    manifest_ttl: float = Field(default=3600.0, gt=0)
    redis_url: SecretStr = SecretStr("")

    @model_validator(mode="after")
    def _tokens_have_modules(self) -> Self:
        for name in self.module_tokens:
            if name not in self.module_services:
                raise ValueError(f"module_tokens names {name}, and module_services does not")
        for name in self.trusted_modules:
            if name not in self.module_services:
                raise ValueError(f"trusted_modules names {name}, and module_services does not")
        return self


class McpServerSettings(Section):
    """One MCP server whose tools are offered as `name.tool` (MOD-6): a command, or else a streamable HTTP URL.

    The command is started as it is, outside of any box, with `env` and the few variables every program needs.
    trusted: believe its hints that a tool only reads, is idempotent or destroys nothing. required_permission: of users.
    """

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, SecretStr] = Field(default_factory=dict)
    cwd: Path | None = None
    url: HttpUrl | None = None
    headers: Mapping[str, SecretStr] = Field(default_factory=dict)
    trusted: bool = False
    required_permission: PermissionLevel = "guest"

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if bool(self.command) == (self.url is not None):
            raise ValueError("an MCP server takes either a command or a url")
        return self
