"""`make bench`: how long isolated code takes beside its peers, and what a box or a kernel costs.

All ways take turns in one run on one machine, so that a drift of the machine's speed hits them alike.

call: a skill called through the whole engine. boxes: the sandbox alone. kernels: beside stock Jupyter kernels.
admission: the gate on MBPP, with options of its own (`python -m bench admission --help`); never among all of them.
pipeline: a tool that does nothing, beside other frameworks. assembly: the list of a turn.
turns: an agent with a scripted model learns, uses, loses and repairs skills while the world changes (not a timing).
Without any of them: all.
"""

import argparse
import json
import sys
from functools import partial
from pathlib import Path

from rich.console import Console

from bench import admission, assembly, call, pipeline
from bench.boxes import command as boxes
from bench.kernels import command as kernels
from bench.turns import command as turns

_BENCHES = {
    "call": (call.bench, 40),
    "boxes": (boxes.bench, 40),
    "kernels": (kernels.bench, 40),
    "pipeline": (pipeline.bench, 5000),
    "assembly": (assembly.bench, 200),
    "turns": (turns.bench, 200),
}


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["admission"]:
        return admission.main(given[1:])
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("which", nargs="?", choices=tuple(_BENCHES), help="only this one")
    defaults = ", ".join(f"{rounds} for {name}" for name, (_, rounds) in _BENCHES.items())
    parser.add_argument("--rounds", type=int, help=f"turns of every way (default {defaults})")
    parser.add_argument("--out", type=Path, help="of `turns`: a folder for its record and its picture")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout, tables on stderr")
    options = parser.parse_args(given)
    console = Console(stderr=options.json)
    benches = _BENCHES | {"turns": (partial(turns.bench, out=options.out), _BENCHES["turns"][1])}
    rows = {
        name: bench(options.rounds or rounds, console)
        for name, (bench, rounds) in benches.items()
        if options.which in (None, name)
    }
    if options.json:
        json.dump(rows, sys.stdout, indent=2)
        sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
