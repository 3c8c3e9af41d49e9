"""`knackbox bench`: the benchmarks of a source checkout, which are not in the installed package."""

from importlib import import_module
from pathlib import Path

import typer

from engine.app.plugins import CHECKOUT
from engine.contract.failure import ConfigError

COMMAND = "bench.command"


def load(checkout: Path = CHECKOUT) -> typer.Typer:
    """Return the commands of `bench/`.

    Raises:
        ConfigError: The benchmarks or one of their dependencies are not installed.
    """
    if not (checkout / "bench" / "command.py").is_file():
        raise ConfigError(
            "bench: the installed package does not contain the benchmarks. In a source checkout, run "
            "pip install -e '.[bench]', then make bench."
        )
    try:
        app: typer.Typer = import_module(COMMAND).app
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"bench: {error.name} is not installed. In the checkout, run pip install -e '.[bench]' or make setup."
        ) from error
    return app


app = load()
