"""Plays the scenes on a real engine, and records the calls."""

import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.agent.events import CallFinished, OnEvent
from engine.app.conversation import open_conversation
from engine.app.engine import Engine
from engine.app.home import Home
from engine.contract.failure import ConfigError
from engine.recovery.fallback import shipped_chains

from .moves import Scene
from .scripted_model import ScriptedModel
from .skills import EARLIER
from .stations import CHAINS
from .story import DATA_FILE


@dataclass(frozen=True, slots=True)
class Happened:
    """One call of a scene.

    Attributes:
        expected: Whether it must succeed; None with a live model, which is not predictable.
    """

    scene: str
    what: str
    finished: CallFinished
    expected: bool | None

    @property
    def as_expected(self) -> bool:
        return self.expected is None or self.expected == self.finished.result.success


def data_file() -> Path:
    """Return the file of penguin measurements of the package palmerpenguins (Horst, Hill & Gorman 2020, CC0).

    Raises:
        ConfigError: The package is not installed.
    """
    spec = importlib.util.find_spec("palmerpenguins")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        found = Path(folder) / "data" / DATA_FILE
        if found.is_file():
            return found
    raise ConfigError("The demo's data package is not installed: pip install 'knackbox[demo]'.")


def furnish(home: Home) -> None:
    """Create a workspace with the data, and a file with the shipped fallback chains followed by the demo's."""
    home.create()
    home.workspace.mkdir(exist_ok=True)
    shutil.copyfile(data_file(), home.workspace / DATA_FILE)
    home.fallback_chains.write_text(shipped_chains().read_text("utf-8") + CHAINS, "utf-8")


async def learn_earlier(engine: Engine, tick: Callable[[], None]) -> None:
    """Learn the skills that exist before the first scene.

    Raises:
        ConfigError: One is refused.
    """
    for skill in EARLIER:
        result = await engine.call("create_skill", skill.proposal())
        if not result.success:
            raise ConfigError(f"The demo could not learn {skill.name}: {result.error}")
        tick()


async def play(
    engine: Engine, scene: Scene, script: ScriptedModel | None, on_event: OnEvent
) -> tuple[list[Happened], str]:
    """Play one scene in a new conversation, and return its calls and the answer.

    Args:
        engine: The engine.
        scene: The scene.
        script: The scripted model; None for a live one.
        on_event: Called with every event.

    Raises:
        ConfigError: The script cannot be followed.
    """
    if script is not None:
        script.expect(scene.moves)
    async with open_conversation(engine, on_event=on_event, stream=False) as conversation:
        report = await conversation.run(scene.message)
    if script is None:
        return [Happened(scene.title, one.call.name, one, None) for one in report.calls], report.answer
    if script.problem:
        raise ConfigError(f"The demo left its script in the scene {scene.title!r}: {script.problem}")
    expected = scene.expect
    happened = [Happened(scene.title, what, one, ok) for one, (what, ok) in zip(report.calls, expected, strict=True)]
    return happened, report.answer
