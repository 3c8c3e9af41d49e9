"""`chosen_sandbox`: reads which sandbox is configured, for commands that need no other setting.

If there is no configuration, `engine.app.settings` is not imported, because that takes a tenth of a second.
"""

import os
from collections.abc import Mapping

from engine.app.home import NOT_SETTINGS, PREFIX, Home
from engine.app.sandboxes import sandbox_settings
from sandbox.contract import SandboxSettings
from sandbox.secrets.secret import Secret

DEFAULT = "namespace"


def chosen_sandbox(home: Home, environ: Mapping[str, str]) -> tuple[str, SandboxSettings]:
    """Return the name of the backend and its settings.

    Raises:
        ConfigError: The configuration is invalid.
    """
    if not is_configured(home, environ):
        return DEFAULT, SandboxSettings(home.cache)
    from engine.app.config import load_settings  # noqa: PLC0415 -- builds the models of all settings

    settings = load_settings(home, environ)
    secrets: tuple[Secret, ...] = ()
    if settings.secrets:
        from engine.app.secrets import open_secrets  # noqa: PLC0415 -- likewise

        home.create()
        secrets = open_secrets(home, settings.secrets, environ).found
    return settings.sandbox, sandbox_settings(home, settings, secrets)


def is_configured(home: Home, environ: Mapping[str, str]) -> bool:
    """Return whether there is a file or variable for `load_settings` to read, valid or not."""
    variables = (name for name in environ if name.startswith(PREFIX) and name not in NOT_SETTINGS)
    return os.path.lexists(home.config) or any(variables)
