"""`chosen_sandbox`: the sandbox of the configuration, for a command that needs nothing else of it.

Where nothing is configured, the settings are not even imported: their models take a tenth of a second to build.
"""

import os
from collections.abc import Mapping

from engine.app.home import HOME_VARIABLE, PREFIX, Home
from engine.app.sandboxes import sandbox_settings
from sandbox.contract import SandboxSettings

DEFAULT = "namespace"


def chosen_sandbox(home: Home, environ: Mapping[str, str]) -> tuple[str, SandboxSettings]:
    """The name of the backend, and what it is told when it opens. Raises ConfigError."""
    if not is_configured(home, environ):
        return DEFAULT, SandboxSettings(home.cache)
    from engine.app.config import load_settings  # noqa: PLC0415 -- builds the models of all settings

    settings = load_settings(home, environ)
    return settings.sandbox, sandbox_settings(home, settings)


def is_configured(home: Home, environ: Mapping[str, str]) -> bool:
    """Whether there is anything for `load_settings` to read, be it wrong."""
    variables = (name for name in environ if name.startswith(PREFIX) and name != HOME_VARIABLE)
    return os.path.lexists(home.config) or any(variables)
