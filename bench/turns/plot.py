"""Draws a chart of a run: the share of right answers over a window of turns, and the events."""

from collections.abc import Sequence
from pathlib import Path

from bench.turns.run import TurnRecord

WINDOW = 15  # turns: the current one and those before it
# The events that are marked: event, label, marker and colour.
_MARKS = (
    ("changed", "the world changes", "v", "#b3261e"),
    ("quarantined", "quarantined", "X", "#d08700"),
    ("repaired", "repaired", "P", "#2e7d32"),
    ("composed", "composed", "D", "#6a3fb5"),
    ("learned", "learned", "^", "#1f5fa8"),
    ("restored", "deleted, restored", "s", "#555555"),
)


def success_rates(records: Sequence[TurnRecord]) -> list[float]:
    """Return, for each turn, the share of right answers in the window that ends with it."""
    ok = [record.ok for record in records]
    return [sum(ok[max(0, end - WINDOW) : end]) / min(end, WINDOW) for end in range(1, len(ok) + 1)]


def draw(records: Sequence[TurnRecord], file: Path) -> None:
    """Write the chart as an SVG file. Equal records give equal bytes.

    Raises:
        ImportError: Matplotlib is not installed.
    """
    import matplotlib as mpl  # noqa: PLC0415 -- optional (extra `bench`) and slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415 -- the same

    with mpl.rc_context({"svg.hashsalt": "knackbox", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        axes = figure.add_subplot()
        turns = [record.turn for record in records]
        axes.plot(turns, success_rates(records), color="#333333", linewidth=1.6)
        wrong = [record.turn for record in records if not record.ok]
        axes.plot(wrong, [0.02] * len(wrong), "|", color="#b3261e", markersize=9, label="not answered")
        for height, (event, label, marker, colour) in enumerate(_MARKS):
            at = [one.turn for one in records if any(each.startswith(f"{event}:") for each in one.events)]
            axes.plot(at, [1.06 + 0.055 * height] * len(at), marker, color=colour, markersize=5, label=label)
            if event == "changed":
                for turn in at:
                    axes.axvline(turn, color=colour, linewidth=0.7, linestyle=":")
        axes.set(xlim=(0, len(records) + 1), ylim=(0, 1.4), xlabel="turn", ylabel=f"right answers, last {WINDOW} turns")
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0%", "25%", "50%", "75%", "100%"])
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside lower center", ncols=7, frameon=False, fontsize=8)
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
