"""Making the registries of a home: which adapters they may use, and where those may not come from."""

from engine.app.home import Home
from engine.app.settings import Settings
from engine.contract.context import Clock
from engine.contract.failure import ConfigError
from engine.registry.adapters import Adapters
from engine.registry.registries import Find, Registries
from engine.registry.trial_import import TrialImport
from engine.registry.updates import RegistryUpdates
from sandbox.contract import Sandbox


async def open_registries(
    home: Home, settings: Settings, sandbox: Sandbox, updates: RegistryUpdates, *, clock: Clock, find: Find
) -> Registries:
    """Reconciled and loaded. find: the tool of a name over all sources. Raises ConfigError, StoreBusy."""
    writable = (settings.workspace or home.workspace, home.skills, home.workspace, home.cache)
    adapters = Adapters(settings.registry.adapter_prefixes, writable, TrialImport(sandbox))
    registries = Registries(home.registries, updates, clock, adapters, find)
    try:
        await registries.open()
    except OSError as error:
        raise ConfigError(
            f"{error.filename or home.registries}: the registries cannot be used ({error.strerror}). "
            "Check what lies there and its permissions, or choose another home with --home."
        ) from error
    return registries
