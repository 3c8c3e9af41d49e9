"""Opening the configured sandbox: an entry point of the group ``knackbox.sandboxes``, called with `SandboxSettings`."""

import difflib
import inspect
import logging
from typing import TYPE_CHECKING

from engine.app.home import Home
from engine.app.plugins import SANDBOXES, find, named
from engine.contract.failure import ConfigError
from sandbox.contract import (
    Job,
    OnOutput,
    Outcome,
    Protection,
    Protections,
    Sandbox,
    SandboxError,
    SandboxSettings,
    State,
)
from sandbox.unsafe import UnsafeSandbox

if TYPE_CHECKING:
    from engine.app.settings import Settings

_log = logging.getLogger("knackbox.sandbox")


def told_to_sandboxes(home: Home, settings: "Settings") -> SandboxSettings:
    """What any backend is told when it opens."""
    return SandboxSettings(
        cache=home.cache,
        environments_bytes=settings.environments.cap_bytes,
        build_s=settings.environments.build_s,
        allow_private=frozenset(settings.egress.allow_private),
        image=settings.docker.image,
        runtime=settings.docker.runtime,
        engine_url=settings.docker.url,
    )


async def open_sandbox(name: str, settings: SandboxSettings) -> Sandbox:
    """The backend of this name. Raises ConfigError when there is none, or when it cannot be loaded.

    A missing protection is not noticed here: the backend refuses to run and says which one (BOX-2).
    """
    point = named(SANDBOXES, name)
    if point is None:
        points = [each.name for each in find(SANDBOXES)]
        near = difflib.get_close_matches(name, points, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Installed: {', '.join(sorted(points)) or 'none'}."
        raise ConfigError(f"sandbox: there is no backend named {name!r}. {hint}")
    try:
        made = point.load()(settings)
        backend = await made if inspect.isawaitable(made) else made
    except (SandboxError, ConfigError):
        raise
    except Exception as error:
        raise ConfigError(
            f"sandbox: the backend {name} ({point.value}) cannot be loaded: {type(error).__name__}: {error}. "
            "Repair it, or choose another with KNACKBOX_SANDBOX."
        ) from error
    if not all(hasattr(backend, method) for method in ("run", "report", "aclose")):
        raise ConfigError(f"sandbox: {point.value} is not a sandbox backend (sandbox.contract.Sandbox).")
    found: Sandbox = backend
    return found


def unsafe_sandbox() -> Sandbox:
    """No isolation at all; it logs a warning on every run (BOX-2). Only ever made for `--unsafe-no-sandbox`."""
    return UnsafeSandbox()


async def is_usable(box: Sandbox) -> bool:
    """Whether the sandbox can run anything. Where it cannot, tools that need one are not listed.

    A backend that depends on a service of its own says so by a method `ready`, which raises SandboxError. It is asked
    once, when the engine opens. What is called by name all the same is answered by the backend.
    """
    if isinstance(box, Refusing):
        return False
    ready = getattr(box, "ready", None)
    if ready is None:
        return True
    try:
        await ready()
    except SandboxError as error:
        _log.warning(
            "Tools that need the sandbox are not listed: %s %s Then open the engine again.", error.message, error.remedy
        )
        return False
    return True


class Refusing:
    """What stands where no sandbox could be opened: it runs nothing, and says why (BOX-2)."""

    name = "none"

    def __init__(self, error: SandboxError) -> None:
        self._error = error

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:  # noqa: ARG002 -- the contract's
        """Raises SandboxError."""
        raise SandboxError(self._error.message, may_have_started=False, remedy=self._error.remedy)

    async def report(self) -> Protections:
        detail, remedy = self._error.message, self._error.remedy
        return Protections(
            self.name, (Protection("sandbox", State.ABSENT, required=True, detail=detail, remedy=remedy),)
        )

    async def aclose(self) -> None:
        """Nothing is held."""
