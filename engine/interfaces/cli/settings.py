"""`settings_of`: the home and the settings of one invocation of the command line."""

import os

import typer

from engine.app.config import load_settings
from engine.app.home import Home
from engine.app.settings import Settings
from engine.interfaces.cli.shared import options


def settings_of(ctx: typer.Context) -> tuple[Home, Settings]:
    """Return the home and the settings of this invocation.

    Raises:
        ConfigError: The configuration is invalid.
    """
    home = Home.locate(options(ctx).home, os.environ)
    return home, load_settings(home, os.environ)
