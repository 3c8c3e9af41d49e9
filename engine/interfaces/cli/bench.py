"""`knackbox bench`: the benchmarks of a source checkout, which are not in the installed package."""

from importlib import import_module
from pathlib import Path

import typer

from engine.app.plugins import CHECKOUT
from engine.contract.failure import ConfigError

COMMAND = "bench.command"


def load(checkout: Path = CHECKOUT) -> typer.Typer:
    """The commands of `bench/`. Raises ConfigError, saying what to install, when it or what it needs is not there."""
    if not (checkout / "bench" / "command.py").is_file():
        raise ConfigError(
            "bench: the benchmarks are not in the installed package. In a source checkout: pip install -e '.[bench]', "
            "then make bench."
        )
    try:
        app: typer.Typer = import_module(COMMAND).app
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"bench: {error.name} is not installed. In the checkout: pip install -e '.[bench]', or make setup."
        ) from error
    return app


app = load()
