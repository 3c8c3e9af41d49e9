"""`knackbox bench self-play`: a scripted model proposes changes, half of them harmful or duplicates (PLAY-2).

All codes are asked before the first cycle, after every few proposals, and after everything was undone. The share of
right answers is the exam success. These answers are judged by checks in boxes and change nothing.
"""

import asyncio
import hashlib
import json
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.self_play.learner import ScriptedLearner, check, code_name, question, right_answer
from bench.self_play.model_server import serving_model
from builtin_tools.memory.lessons.lesson_book import LESSONS, LessonBook
from builtin_tools.memory.scope import owner_of_user
from builtin_tools.self_play.attempts import PlayAttempts, PlayLimits
from builtin_tools.self_play.cycles import CycleState, Exercise, HeldOutTask
from builtin_tools.self_play.self_play import SelfPlay
from engine import Engine
from engine.app.settings import Settings
from engine.contract.turn import Turn

PICTURE = "self-play.svg"
_POINTS = 20  # how often the exam is taken
_TEXT = "orange"  # neither the text of the practice nor of the exam of a cycle


@dataclass(frozen=True, slots=True)
class ExamPoint:
    """The share of codes that are answered right after a number of proposals."""

    proposals: int
    success: float


def bench(proposals: int, console: Console, out: Path | None = None) -> list[dict[str, Any]]:
    """Play until so many changes were proposed, undo everything, and return one row.

    Args:
        proposals: How many changes the model proposes.
        console: Receives the table and the progress.
        out: A folder for the chart.
    """
    with tempfile.TemporaryDirectory(prefix="knackbox-self-play-") as home:
        points, row = asyncio.run(_play(Path(home), proposals, console))
    console.print(json.dumps(row, indent=2))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        draw(points, out / PICTURE)
    return [row]


async def _play(home: Path, proposals: int, console: Console) -> tuple[list[ExamPoint], dict[str, Any]]:
    codes = proposals // 2 + 1  # so that something is left to learn at the last proposal
    learner, began = ScriptedLearner(codes), time.perf_counter()
    async with serving_model(learner.respond) as url:
        model = {"provider": "openai", "name": "scripted", "base_url": url, "api_key": "none"}
        settings = Settings.model_validate({"model": model, "packs": {"self_play": {"held_out": codes}}})
        async with Engine.open(home, settings=settings, environ={}) as engine:
            for number in range(codes):  # the record of the weaknesses: calls of tools that do not exist
                await engine.call(code_name(number), {"text": "a"})
            await engine.audit(1)
            before = await stored(engine)
            points, play = [ExamPoint(0, await exam(engine, codes))], engine.need(SelfPlay)
            cycles, harmful_kept, merged, dropped = [], 0, 0, 0
            while len(learner.proposed) < proposals:
                made = len(learner.proposed)
                cycle = await play.play(Turn())
                cycles.append(cycle)
                kept = cycle.state is CycleState.KEPT
                if len(learner.proposed) > made:
                    kind = learner.proposed[-1][0]
                    is_merge = kept and cycle.change is not None and cycle.change.merged
                    merged += is_merge
                    dropped += not kept and kind.value.startswith("duplicate")
                    harmful_kept += kept and not kind.right and not is_merge
                    if len(learner.proposed) % max(1, proposals // _POINTS) == 0:
                        points.append(ExamPoint(len(learner.proposed), await exam(engine, codes)))
                        console.print(f"{points[-1].proposals} proposals: {points[-1].success:.0%} of the codes right")
                elif len(cycles) > 4 * proposals:
                    raise RuntimeError("Too many cycles proposed nothing.")
            played = time.perf_counter() - began
            undoing = time.perf_counter()
            await play.undo_all()
            undone = time.perf_counter() - undoing
            same = await stored(engine) == before
            last = await exam(engine, codes)
    kinds = Counter(kind.value for kind, _ in learner.proposed)
    tasks = [each.held_out for each in cycles if each.held_out.tasks]
    return points, {
        "what": "self_play",
        "proposals": len(learner.proposed),
        "kinds": dict(kinds),
        "cycles": len(cycles),
        "kept": dict(
            Counter(str(each.change.kind) for each in cycles if each.change and each.state is CycleState.KEPT)
        ),
        "harmful_kept": harmful_kept,
        "duplicates_merged": merged,
        "duplicates_dropped": dropped,
        "rolled_back": sum(each.state is CycleState.ROLLED_BACK for each in cycles),
        "by_held_out_tasks": sum(bool(each.worse) for each in tasks),
        "success_before": points[0].success,
        "success_after": points[-1].success,
        "success_undone": last,
        "undone_to_the_byte": same,
        "undo_s": round(undone, 2),
        "played_s": round(played, 1),
    }


async def exam(engine: Engine, codes: int) -> float:
    """Return the share of codes that the loop answers right."""
    attempts = PlayAttempts(engine.need(SelfPlay).parts.host, engine.sandbox, Turn(), "", PlayLimits(tokens=10_000_000))
    tasks = [
        HeldOutTask(number, Exercise(question(number, _TEXT), check(number, _TEXT), right_answer(number, _TEXT)), None)
        for number in range(codes)
    ]
    solved = await attempts.attempt_all(tasks)
    return sum(solved.values()) / codes


async def stored(engine: Engine) -> Mapping[str, Any]:
    """Return what the stores of skills and lessons return: the files and rows of skills, and all lessons."""
    library, book, skills = engine.need(SelfPlay).parts.library, engine.need(LessonBook), engine.services.home.skills

    def read() -> dict[str, Any]:
        files = {
            str(path.relative_to(skills)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(skills.rglob("*"))
            if path.is_file() and path.name != ".lock"
        }
        lessons = book.entries(owner_of_user(Turn().user), LESSONS)
        shown = book.all({owner_of_user(Turn().user): [LESSONS]})
        return {"files": files, "lessons": sorted(map(repr, lessons.values())), "shown": list(map(repr, shown))}

    rows = {"skills": list(map(repr, await library.skills())), "stats": list(map(repr, await library.stats()))}
    return {**rows, **await asyncio.to_thread(read)}


def draw(points: list[ExamPoint], file: Path) -> None:
    """Write the chart as an SVG file. Equal points give equal bytes."""
    import matplotlib as mpl  # noqa: PLC0415 -- optional (extra `bench`) and slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415 -- the same

    with mpl.rc_context({"svg.hashsalt": "knackbox", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(7, 3))
        axes = figure.add_subplot()
        axes.plot(
            [each.proposals for each in points], [each.success * 100 for each in points], marker="o", markersize=3
        )
        axes.set_xlabel("proposed changes, half of them harmful or duplicates")
        axes.set_ylabel("codes answered right, %")
        axes.set_ylim(-3, 103)
        axes.grid(visible=True, linewidth=0.3)
        figure.tight_layout()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
