"""Opening the configured sandbox: an entry point of the group ``knackbox.sandboxes``, called with `SandboxSettings`."""

import asyncio
import difflib
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from engine.app.home import Home
from engine.app.plugins import SANDBOXES, find, named
from engine.contract.context import Clock
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

LOOK_AGAIN_S = 30.0
WAIT_S = 0.5  # a Docker Engine on this machine answers within a few milliseconds
_log = logging.getLogger("knackbox.sandbox")


def sandbox_settings(home: Home, settings: "Settings") -> SandboxSettings:
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


class SandboxWatch:
    """Whether the sandbox can run anything. Where it cannot, tools that need one are not listed.

    A backend that depends on a service of its own says so by a method `ready`, which raises SandboxError. It is asked
    when the engine opens, and while it cannot be used again, since the service may be started later. What is called by
    name all the same is answered by the backend.
    """

    def __init__(self, box: Sandbox, clock: Clock) -> None:
        self._ready: Callable[[], Awaitable[None]] | None = getattr(box, "ready", None)
        self._clock = clock
        self.usable = not isinstance(box, Refusing) and self._ready is None
        self._asked_s = clock.monotonic()
        self._asking: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Ask for the first time, and log why the sandbox cannot be used."""
        if error := await self._ask():
            _log.warning(
                "Tools that need the sandbox are not listed: %s %s Once it can be used they are: it is asked again, at "
                "most every %g s.",
                error.message,
                error.remedy,
                LOOK_AGAIN_S,
            )

    def look_again(self) -> Awaitable[bool] | None:
        """For each list: None where nothing is to be asked now; else whether the sandbox can be used by now.

        What is not answered within `WAIT_S` does not hold up the list; the next one has it.
        """
        if self.usable or self._ready is None or self._clock.monotonic() - self._asked_s < LOOK_AGAIN_S:
            return None
        self._asked_s = self._clock.monotonic()
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._ask_again())
        return self._answered(self._asking)

    async def aclose(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait((self._asking,))

    async def _answered(self, asking: "asyncio.Task[None]") -> bool:
        await asyncio.wait((asking,), timeout=WAIT_S)
        return self.usable

    async def _ask_again(self) -> None:
        if await self._ask() is None:
            _log.info("The sandbox can be used now; tools that need it are listed.")

    async def _ask(self) -> SandboxError | None:
        if self._ready is None:
            return None
        try:
            await self._ready()
        except SandboxError as error:
            return error
        self.usable = True
        return None


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
