"""Draws the tokens of each request of long conversations."""

from collections.abc import Sequence
from pathlib import Path

from bench.conversation.run import WINDOW, ConversationRecord

_COLOURS = ("#999999", "#1f5fa8", "#d08700")


def draw(records: Sequence[ConversationRecord], file: Path) -> None:
    """Write the chart as an SVG file. Equal records give equal bytes.

    Raises:
        ImportError: Matplotlib is not installed.
    """
    import matplotlib as mpl  # noqa: PLC0415 -- optional (extra `bench`) and slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415 -- the same

    with mpl.rc_context({"svg.hashsalt": "knackbox", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        axes = figure.add_subplot()
        for record, colour in zip(records, _COLOURS, strict=False):
            turns = range(1, len(record.tokens) + 1)
            axes.plot(turns, record.tokens, color=colour, linewidth=1.3, label=f"{record.variant}")
        axes.axhline(WINDOW, color="#b3261e", linewidth=0.9, linestyle=":", label="the window")
        longest = max(len(record.tokens) for record in records)
        axes.set(xlim=(0, longest + 1), ylim=(0, 2.5 * WINDOW), xlabel="turn", ylabel="tokens of the request")
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
