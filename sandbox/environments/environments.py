"""Builds package environments, shares each one among the jobs with the same requirements, and evicts unused ones."""

import asyncio
import contextlib
import os
import random
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ParamSpec, Self, TypeVar

import platformdirs

from sandbox.contract import SandboxError
from sandbox.environments import indexes
from sandbox.environments.installer import Bounds, OnProgress, install
from sandbox.environments.shelf import CacheUsage, Shelf

_PAUSE_S = 0.05  # between two attempts to take a lock that another process has
_PATIENCE_S = 30.0  # added to `build_s` when waiting for another process that builds the same environment
_MAX_REMEMBERED = 1024  # number of spellings of requirements for which the key is cached

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class EnvironmentsConfig:
    """The configuration of environments.

    Attributes:
        cache: The folder in which environments are stored.
        cap_bytes: The most bytes that environments may take on disk. Environments in use are never removed.
        build_s: The most seconds that building one environment may take.
        build_bytes: The most bytes that one environment may take on disk.
        allow_builds: Whether source distributions may be built. Not supported yet: `acquire` fails if this is true.
    """

    cache: Path = field(default_factory=lambda: platformdirs.user_cache_path("knackbox"))
    cap_bytes: int = 8 << 30
    build_s: float = 300.0
    build_bytes: int = 2 << 30
    allow_builds: bool = False


class Environment:
    """One environment in use. It is not evicted before `release`, or before the end of the `with` block."""

    def __init__(
        self, key: str, site_packages: Path, share: Callable[[], "Environment"], release: Callable[[], None]
    ) -> None:
        self.key = key
        self.site_packages = site_packages
        self._share = share
        self._release: Callable[[], None] | None = release

    def share(self) -> "Environment":
        """Return the same environment for one more user, which must release it separately.

        Must not be called after `release`.
        """
        return self._share()

    def release(self) -> None:
        """Release the environment. Calling this again does nothing."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@dataclass(slots=True)
class _Held:
    """A shared lock of this process on one environment, and the number of users of that environment."""

    lock: int
    users: int = 0


class Environments:
    """All environments in one cache folder. Any number of processes may use the same folder at once."""

    def __init__(
        self,
        config: EnvironmentsConfig | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._config = config or EnvironmentsConfig()
        self._environ = os.environ if environ is None else environ
        self._shelf = Shelf(self._config.cache, clock_ns)
        self._kind: tuple[str, str] | None = None
        self._known: dict[tuple[str, ...], tuple[tuple[str, ...], str]] = {}
        self._held: dict[str, _Held] = {}

    async def acquire(self, requirements: tuple[str, ...], *, on_progress: OnProgress | None = None) -> Environment:
        """Return the environment for these requirements. It is built if necessary, and locked until it is released.

        Args:
            requirements: PEP 508 requirements.
            on_progress: Called with each line of uv's output while the environment is built.

        Raises:
            UnresolvedRequirements: The requirements cannot be installed.
            SandboxError: The cache folder cannot be used.
        """
        if self._config.allow_builds:
            raise SandboxError(
                "Packages cannot be built from source: a build runs the package's code, and needs a separate box that "
                "can reach the package index.",
                remedy="Turn `allow_builds` off: packages that have a wheel can still be installed.",
            )
        wanted, key = self._key(requirements)
        if key not in self._held:
            with self._convert_errors():
                await self._hold(key, wanted, on_progress or _ignore_progress)
        return self._lend(key)

    async def evict(self, cap_bytes: int | None = None) -> tuple[str, ...]:
        """Remove the least recently used environments until at most `cap_bytes` are left; return the removed keys."""
        cap = self._config.cap_bytes if cap_bytes is None else cap_bytes
        with self._convert_errors():
            await asyncio.to_thread(self._shelf.make)
            return await asyncio.to_thread(self._shelf.evict, cap)

    def usage(self) -> CacheUsage:
        """Return the number and the size of the environments in the cache.

        Raises:
            SandboxError: The cache folder cannot be read.
        """
        with self._convert_errors():
            return self._shelf.usage(self._config.cap_bytes)

    def _key(self, requirements: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
        known = self._known.get(requirements)
        if known is None:
            from sandbox.environments.requirements import key_of, normalize  # noqa: PLC0415 -- packaging, for few jobs

            normalized = normalize(requirements)
            known = normalized, key_of(normalized, *self._interpreter_and_installer())
            if len(self._known) >= _MAX_REMEMBERED:
                self._known.clear()
            self._known[requirements] = known
        return known

    def _interpreter_and_installer(self) -> tuple[str, str]:
        """Return what determines an environment besides its requirements: the interpreter and the installer."""
        if self._kind is None:
            from sandbox.environments.requirements import installer_series, this_interpreter  # noqa: PLC0415 -- same

            self._kind = this_interpreter(), installer_series()
        return self._kind

    async def _hold(self, key: str, wanted: tuple[str, ...], on_progress: OnProgress) -> None:
        """Wait until this process holds the shared lock of the environment `key`, which is built if necessary."""
        built = False
        await asyncio.to_thread(self._shelf.make)
        async with self._patience(wanted):
            while not await self._share(key, wanted):
                lock = self._shelf.try_lock(key, exclusive=True)
                if lock is None:
                    await asyncio.sleep(_PAUSE_S * random.uniform(0.5, 1.5))  # noqa: S311  (the timing is not a secret)
                    continue
                try:
                    # Another process may have built the environment between the check and the lock.
                    if not await asyncio.to_thread(self._shelf.is_whole, key, wanted):
                        await self._build(key, wanted, on_progress)
                        built = True
                finally:
                    if not self._shelf.has(key):
                        self._shelf.forget_lock(key)
                    os.close(lock)
        if built:
            self._held[key].users += 1  # keep the new environment during the eviction, even if it is over the limit
            self._shelf.touch(key)
            try:
                await asyncio.to_thread(self._shelf.evict, self._config.cap_bytes)
            except BaseException:
                self._release(key)
                raise
            self._held[key].users -= 1

    async def _share(self, key: str, wanted: tuple[str, ...]) -> bool:
        if key in self._held:
            return True
        lock = self._shelf.try_lock(key, exclusive=False) if self._shelf.has(key) else None
        if lock is None:
            return False
        try:
            whole = await asyncio.to_thread(self._shelf.is_whole, key, wanted)
        except BaseException:
            os.close(lock)
            raise
        if whole and key not in self._held:
            self._held[key] = _Held(lock)
        else:
            os.close(lock)
        return key in self._held

    async def _build(self, key: str, wanted: tuple[str, ...], on_progress: OnProgress) -> None:
        """Build the environment while holding its exclusive lock."""
        indexes_here = await asyncio.to_thread(indexes.of_this_machine, self._environ)
        bounds = Bounds(self._config.build_s, self._config.build_bytes)
        staging = await _to_its_end(self._shelf.stage, key)
        try:
            await install(wanted, staging, bounds, indexes_here, on_progress)
            await _to_its_end(self._shelf.publish, key, staging, wanted, *self._interpreter_and_installer())
        finally:
            await _to_its_end(shutil.rmtree, staging, ignore_errors=True)

    def _lend(self, key: str) -> Environment:
        self._held[key].users += 1
        self._shelf.touch(key)
        packages = self._shelf.packages(key)
        return Environment(key, packages, lambda: self._lend(key), lambda: self._release(key))

    def _release(self, key: str) -> None:
        held = self._held[key]
        held.users -= 1
        if held.users <= 0:
            del self._held[key]
            self._shelf.touch(key)
            os.close(held.lock)

    @contextlib.asynccontextmanager
    async def _patience(self, wanted: tuple[str, ...]) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._config.build_s + _PATIENCE_S):
                yield
        except TimeoutError:
            raise SandboxError(
                f"Gave up waiting for the environment of {', '.join(wanted)}: another process is still building or "
                "repairing it.",
                remedy=f"See which process holds a lock below {self._shelf.root / '.locks'}.",
            ) from None

    @contextlib.contextmanager
    def _convert_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise SandboxError(
                f"The cache of environments {self._shelf.root} cannot be used: {problem.strerror or problem}.",
                remedy="Use a folder that belongs to this user, on a disk with free space.",
            ) from problem


async def _to_its_end(work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run `work` in a thread, and wait for its end even if this task is cancelled.

    While the work runs, the caller must keep its lock.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    cancelled = False
    while not running.done():
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    return running.result()


def _ignore_progress(_: str) -> None:
    """Ignore the progress. This is the default of `on_progress`."""
