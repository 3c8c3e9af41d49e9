"""Opens the registries of a home and restricts the adapters that they may use."""

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
    """Load the registries of tools, prompts and agents, and publish changes that have not been published yet.

    Args:
        home: The folder of the engine.
        settings: The configuration.
        sandbox: Runs the trial import of adapters.
        updates: Publishes changes.
        clock: The source of time.
        find: Finds a tool by name in all sources.

    Raises:
        ConfigError: The registry files cannot be used.
        StoreBusy: Another process holds the lock.
    """
    writable = (settings.workspace or home.workspace, home.skills, home.workspace, home.cache)
    adapters = Adapters(settings.registry.adapter_prefixes, writable, TrialImport(sandbox))
    registries = Registries(home.registries, updates, clock, adapters, find)
    try:
        await registries.open()
    except OSError as error:
        raise ConfigError(
            f"{error.filename or home.registries}: the registries cannot be used ({error.strerror}). "
            "Check the files there and their permissions, or choose another home with --home."
        ) from error
    return registries
