"""`Adapters`: resolves ``package.module:attribute`` to the code that runs a registered tool (REG-4).

An adapter is engine code: it runs in this process, not in a box. Therefore it is imported only from modules that the
operator configured, never from a folder that agents write to, and only when it is first called. An edited adapter
replaces the one in use only after its new source has been imported successfully in a box.
"""

import asyncio
import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from engine.contract.context import CallContext
from engine.contract.failure import FailureClass, refusal
from engine.contract.source import Tool
from engine.contract.spec import ToolSpec
from engine.registry.callable import as_tool
from engine.registry.daemon_thread import in_daemon_thread
from engine.registry.static import RegistryError
from engine.registry.trial_import import TrialImport

PATIENCE_S = 5.0
IMPORT_SHARE = 0.9  # the share of a tool's deadline that an import may take; the rest is for reporting a failure


class AdapterError(RegistryError):
    """An adapter cannot be used. The message says why."""


@dataclass(frozen=True, slots=True)
class _LoadedModule:
    """A module that contains adapters and has been loaded.

    Attributes:
        stamp: The size and modification time of the module's file when it was loaded.
        seen: The size and modification time at the last attempt to load it, which may have failed.
    """

    module: ModuleType
    file: Path | None
    stamp: tuple[int, int] | None
    seen: tuple[int, int] | None


class Adapters:
    """Imports, caches and reloads the adapters of one engine."""

    def __init__(self, prefixes: Iterable[str], forbidden: Iterable[Path], trial: TrialImport) -> None:
        """Create the object without importing anything.

        Args:
            prefixes: Names of modules that may contain adapters, as may their submodules.
            forbidden: Folders from which nothing is imported.
            trial: Imports an edited adapter in a box before it is imported in this process.
        """
        self._prefixes = tuple(prefixes)
        self._forbidden = tuple(folder.resolve() for folder in forbidden)
        self._trial = trial
        self._lock = threading.Lock()
        self._modules: dict[str, _LoadedModule] = {}
        self._tools: dict[int, tuple[ToolSpec, Tool]] = {}

    def known(self, spec: ToolSpec) -> Tool | None:
        """Return the tool of this spec, or None if its adapter is not resolved yet."""
        found = self._tools.get(id(spec))
        return found[1] if found is not None else None

    def resolve(self, spec: ToolSpec) -> Tool:
        """Import the spec's `adapter_path`, and return the tool. This method blocks.

        Raises:
            AdapterError: The adapter cannot be imported. The next call of `resolve` tries again.
        """
        with self._alone():
            known = self.known(spec)
            if known is not None:
                return known
            name, _, attribute = spec.adapter_path.partition(":")
            self.check(spec.adapter_path)
            module = self._module(name).module
            try:
                tool = as_tool(spec, getattr(module, attribute))
            except AttributeError:
                raise AdapterError(f"{name} has no {attribute!r}; correct adapter_path of {spec.id}.") from None
            # The spec is stored with its tool, so that the spec's id() cannot be reused for another object.
            self._tools[id(spec)] = (spec, tool)
            return tool

    def forget(self, specs: Iterable[ToolSpec]) -> None:
        """Discard the resolved tools, except the tools of these specs."""
        kept = {id(spec) for spec in specs}
        for key in [key for key in list(self._tools) if key not in kept]:
            self._tools.pop(key, None)

    def check(self, path: str) -> None:
        """Check that the operator allowed the module.

        Raises:
            AdapterError: The module is neither an allowed module nor a submodule of one.
        """
        name = path.partition(":")[0]
        if not any(name == prefix or name.startswith(f"{prefix}.") for prefix in self._prefixes):
            allowed = ", ".join(self._prefixes) or "none"
            raise AdapterError(
                f"The adapter {path} is not in an allowed module (allowed: {allowed}). "
                "Add its package to adapter_prefixes in [registry] of config.toml."
            )

    def edited(self) -> bool:
        """Return whether any adapter's file has changed since the last attempt to load it. This is fast."""
        return any(each.file is not None and _stamp(each.file) != each.seen for each in list(self._modules.values()))

    async def reload_edited(self, *, again: bool = True) -> dict[str, str]:
        """Reload every adapter whose file was edited.

        The new source is first imported in a box, and then in this process. If either fails, the old module stays in
        use.

        Args:
            again: Whether to retry files that failed and have not changed since.

        Returns:
            The names of the edited modules, each with the reason why it was not reloaded, or "" if it was reloaded.
        """
        outcome = {}
        for name, loaded in list(self._modules.items()):
            if loaded.file is None:
                continue
            stamp = await asyncio.to_thread(_stamp, loaded.file)
            if stamp != (loaded.stamp if again else loaded.seen):
                outcome[name] = await self._reload(name, loaded, loaded.file, stamp)
        return outcome

    async def _reload(self, name: str, loaded: _LoadedModule, file: Path, stamp: tuple[int, int] | None) -> str:
        try:
            source = await asyncio.to_thread(file.read_bytes)
            await self._trial.run(name, file, source)
            await in_daemon_thread(partial(self._swap, name, loaded, source, stamp))
        except (RegistryError, OSError) as error:
            self._modules[name] = replace(loaded, seen=stamp)
            return f"the edited {name} is not used: {error} The previous version stays in use."
        return ""

    def _swap(self, name: str, loaded: _LoadedModule, source: bytes, stamp: tuple[int, int] | None) -> None:
        """Replace the module with one made from the new source. If the source raises, nothing changes."""
        spec = loaded.module.__spec__
        assert spec is not None  # noqa: S101 -- for the type checker; it has been imported
        with self._alone():
            module = importlib.util.module_from_spec(spec)
            _guarded(name, lambda: exec(compile(source, str(loaded.file), "exec"), module.__dict__))  # noqa: S102 -- the operator's code
            sys.modules[name] = module
            self._modules[name] = _LoadedModule(module, loaded.file, stamp, stamp)
            for key, (each, _) in list(self._tools.items()):
                if each.adapter_path.partition(":")[0] == name:
                    self._tools.pop(key, None)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Allow one import at a time. Give up if another import hangs, so that waiting threads do not pile up."""
        if not self._lock.acquire(timeout=PATIENCE_S):
            raise AdapterError("The import of another adapter has not finished yet. Try again later.")
        try:
            yield
        finally:
            self._lock.release()

    def _module(self, name: str) -> _LoadedModule:
        loaded = self._modules.get(name)
        if loaded is not None:
            return loaded
        parts = name.split(".")
        found: ModuleSpec | None = None
        for depth in range(1, len(parts) + 1):  # packages are checked before they are imported
            path = ".".join(parts[:depth])
            found = _guarded(path, partial(importlib.util.find_spec, path))
            if found is None:
                raise AdapterError(f"There is no module {path}. Install its package, or correct adapter_path.")
            self._refuse_forbidden(path, found)
            stamp = _stamp(Path(found.origin)) if found.origin else None
            module = _guarded(path, partial(importlib.import_module, path))
        origin = found.origin if found is not None and found.has_location else None
        file = Path(origin) if origin and origin.endswith(".py") else None  # only source files can be tried in a box
        stamp = stamp if file is not None else None
        loaded = self._modules[name] = _LoadedModule(module, file, stamp, stamp)
        return loaded

    def _refuse_forbidden(self, name: str, found: ModuleSpec) -> None:
        places = [*(found.submodule_search_locations or ()), *([found.origin] if found.has_location else ())]
        for place in places:
            real = Path(place or "").resolve()
            for folder in self._forbidden:
                if real.is_relative_to(folder):
                    raise AdapterError(
                        f"The module {name} is in {folder}, which agents can write to; it was not imported. "
                        "Install it elsewhere."
                    )


@dataclass(frozen=True, slots=True)
class AdapterTool:
    """A registered tool whose adapter is resolved when it is called."""

    spec: ToolSpec
    adapters: Adapters

    async def run(self, ctx: CallContext, arguments: Mapping[str, Any]) -> Any:
        """Run the adapter.

        Raises:
            ToolFailure: The adapter cannot be used or its import takes too long (FATAL, not started).
        """
        patience = IMPORT_SHARE * self.spec.timeout_s
        try:
            async with asyncio.timeout(patience):
                tool = await in_daemon_thread(partial(self.adapters.resolve, self.spec))
        except TimeoutError as error:
            text = f"{self.spec.name} cannot run yet: its adapter {self.spec.adapter_path} was not imported within "
            text += f"{patience:g} s. Nothing was run. The import continues; try again later."
            raise refusal(text, "adapter_unavailable", FailureClass.FATAL) from error
        except RegistryError as error:
            text = f"{self.spec.name} cannot run: {error} Nothing was run."
            raise refusal(text, "adapter_unavailable", FailureClass.FATAL) from error
        return await tool.run(ctx, arguments)


def _guarded(name: str, work: Callable[[], Any]) -> Any:
    """Return the value of `work()`, which imports code. Any exception becomes an AdapterError with a short message."""
    try:
        return work()
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split())[:300]
        raise AdapterError(f"{name} cannot be imported: {type(error).__name__}: {text}. Correct the module.") from error


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
