"""Settings of remote tools: HTTP modules and MCP servers."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from engine.app.section import Section
from engine.contract.spec import PermissionLevel


def _table(given: Any) -> Any:
    """Parse `name=value,name=value` from an environment variable. Return any other value unchanged."""
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
            "a user or password in a URL would be logged; remove it, and set a token in module_tokens instead "
            "(for an MCP server, set headers)"
        )
    return url


ModuleName = Annotated[str, AfterValidator(_module_name)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]


class ModuleSettings(Section):
    """HTTP modules (MOD-1 to MOD-4).

    Attributes:
        module_services: The URL of each module, by name.
        module_tokens: Bearer tokens of the modules that require one.
        slow_modules: Modules and MCP servers to which `tool_execution_timeout` applies instead of `module_timeout`.
        trusted_modules: Modules whose annotations (read-only, idempotent, not destructive) are trusted.
        module_timeout: Time limit of a call, in seconds.
        tool_execution_timeout: Time limit of a call to a slow module, in seconds.
        default_guest_modules: Modules that a guest without a persona may use.
        manifest_ttl: How long a manifest is valid, in seconds.
        redis_url: A Redis server that caches manifests, instead of the disk.
        pin_tools: Whether tools of modules and MCP servers whose definition has changed are held back until an operator
            accepts them.
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
    pin_tools: bool = True

    @model_validator(mode="after")
    def _tokens_have_modules(self) -> Self:
        for name in self.module_tokens:
            if name not in self.module_services:
                raise ValueError(f"module_tokens names {name}, which module_services does not contain")
        for name in self.trusted_modules:
            if name not in self.module_services:
                raise ValueError(f"trusted_modules names {name}, which module_services does not contain")
        return self


class McpServerSettings(Section):
    """An MCP server whose tools are offered as `name.tool` (MOD-6).

    The settings give either a command that starts the server or its streamable HTTP URL. The command runs outside the
    sandbox, with the few environment variables that all programs need and those in `env`.

    Attributes:
        trusted: Whether the annotations of its tools (read-only, idempotent, not destructive) are trusted.
        required_permission: The permission that users of its tools need.
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
            raise ValueError("an MCP server needs either a command or a url, and not both")
        return self
