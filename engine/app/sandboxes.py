"""Opens the configured sandbox. Backends are entry points of the group ``knackbox.sandboxes``."""

import asyncio
import difflib
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
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
from sandbox.secrets.secret import Secret
from sandbox.unsafe import UnsafeSandbox

if TYPE_CHECKING:
    from engine.app.settings import Settings

LOOK_AGAIN_S = 30.0
WAIT_S = 0.5  # a Docker Engine on this machine answers within a few milliseconds
_log = logging.getLogger("knackbox.sandbox")


def sandbox_settings(home: Home, settings: "Settings", secrets: Sequence[Secret] = ()) -> SandboxSettings:
    """Return the settings that a backend receives when it opens. `secrets` are those that the egress proxy may send."""
    return SandboxSettings(
        cache=home.cache,
        environments_bytes=settings.environments.cap_bytes,
        build_s=settings.environments.build_s,
        allow_private=frozenset(settings.egress.allow_private),
        secrets=tuple(secrets),
        image=settings.docker.image,
        runtime=settings.docker.runtime,
        engine_url=settings.docker.url,
    )


async def open_sandbox(name: str, settings: SandboxSettings) -> Sandbox:
    """Open the backend of this name.

    Missing protections are not reported here: the backend refuses to run a job, and its error names them (BOX-2).

    Raises:
        ConfigError: There is no such backend, or it cannot be loaded.
        SandboxError: The backend cannot be used on this machine.
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
    """Return a sandbox without isolation, for `--unsafe-no-sandbox` only. It logs a warning on every run (BOX-2)."""
    return UnsafeSandbox()


class SandboxWatch:
    """Monitors whether the sandbox is usable. As long as it is not, tools that need it are not listed.

    A backend that depends on a service has a method `ready`, which raises SandboxError while the service is down. The
    method is called when the engine opens, and again until it succeeds, since the service may start later. A call of an
    unlisted tool still reaches the backend, which refuses it.
    """

    def __init__(self, box: Sandbox, clock: Clock) -> None:
        self._ready: Callable[[], Awaitable[None]] | None = getattr(box, "ready", None)
        self._clock = clock
        self.usable = not isinstance(box, Refusing) and self._ready is None
        self._asked_s = clock.monotonic()
        self._asking: asyncio.Task[None] | None = None

    @property
    def final(self) -> bool:
        """Whether `usable` cannot change any more."""
        return self.usable or self._ready is None

    async def begin(self) -> None:
        """Check for the first time. If the sandbox cannot be used, log why."""
        if error := await self._ask():
            _log.warning(
                "Tools that need the sandbox are not listed: %s %s They will be listed once the sandbox can be "
                "used, which is checked at most every %g s.",
                error.message,
                error.remedy,
                LOOK_AGAIN_S,
            )

    def look_again(self) -> Awaitable[bool] | None:
        """Start another check if one is due. The method is called before each list of tools is built.

        Returns:
            None if no check is due. Otherwise an awaitable that returns whether the sandbox is usable. It waits at most
            `WAIT_S` seconds for the check, so that a slow backend does not delay the list.
        """
        if self.final or self._clock.monotonic() - self._asked_s < LOOK_AGAIN_S:
            return None
        self._asked_s = self._clock.monotonic()
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._ask_again())
        return self._answered(self._asking)

    async def aclose(self) -> None:
        """Stop checking."""
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
    """Replaces a sandbox that could not be opened. It refuses every job with the reason (BOX-2)."""

    name = "none"

    def __init__(self, error: SandboxError) -> None:
        self._error = error

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:  # noqa: ARG002 -- required by the protocol
        """Refuse the job.

        Raises:
            SandboxError: Always, with the reason why the sandbox could not be opened.
        """
        raise SandboxError(self._error.message, may_have_started=False, remedy=self._error.remedy)

    async def report(self) -> Protections:
        detail, remedy = self._error.message, self._error.remedy
        return Protections(
            self.name, (Protection("sandbox", State.ABSENT, required=True, detail=detail, remedy=remedy),)
        )

    async def aclose(self) -> None:
        """Do nothing: no resources are held."""
