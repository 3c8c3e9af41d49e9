"""`knackbox demo`: loads the demo, which is part of the examples. A wheel has a copy of it (see pyproject.toml)."""

from importlib import import_module
from pathlib import Path

import typer

from engine.app.plugins import CHECKOUT
from engine.contract.failure import ConfigError

IN_CHECKOUT = "examples.demo"
IN_WHEEL = "engine.interfaces.demo"


def load(checkout: Path = CHECKOUT) -> typer.Typer:
    """Return the command of the demo.

    Raises:
        ConfigError: A library that the demo needs is not installed.
    """
    package = IN_CHECKOUT if (checkout / "examples" / "demo" / "command.py").is_file() else IN_WHEEL
    try:
        app: typer.Typer = import_module(f"{package}.command").app
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"demo: {error.name} is not installed. Install it with pip install 'knackbox[demo]'."
        ) from error
    return app


app = load()
