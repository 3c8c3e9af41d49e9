"""`make bench`: how long isolated code takes beside its peers, and what a box or a kernel costs.

All ways take turns in one run on one machine, so that a drift of the machine's speed hits them alike.

call: a skill called through the whole engine. boxes: the sandbox alone. kernels: beside stock Jupyter kernels.
pipeline: a tool that does nothing, beside other frameworks. assembly: the list of a turn.
retrieval: which tools are found for a request, and how soon; needs --data.
Without any of them: all but retrieval.
"""

import argparse
import json
import sys
from functools import partial
from pathlib import Path

from rich.console import Console

from bench import assembly, call, pipeline, retrieval, tool_requests
from bench.boxes import command as boxes
from bench.kernels import command as kernels

_BENCHES = {
    "call": (call.bench, 40),
    "boxes": (boxes.bench, 40),
    "kernels": (kernels.bench, 40),
    "pipeline": (pipeline.bench, 5000),
    "assembly": (assembly.bench, 200),
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("which", nargs="?", choices=(*_BENCHES, "retrieval"), help="only this one")
    defaults = ", ".join(f"{rounds} for {name}" for name, (_, rounds) in _BENCHES.items())
    parser.add_argument("--rounds", type=int, help=f"turns of every way (default {defaults})")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout, tables on stderr")
    parser.add_argument("--data", type=Path, help="the folder of retrieval's requests and tools")
    options = parser.parse_args(arguments)
    console = Console(stderr=options.json)
    benches = dict(_BENCHES)
    if options.which == "retrieval":
        if options.data is None or not (options.data / "tools.jsonl").is_file():
            sys.stderr.write(f"{tool_requests.HELP}\n")
            return 2
        benches["retrieval"] = (partial(retrieval.bench, folder=options.data), 500)
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
