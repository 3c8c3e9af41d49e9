"""``python -m bench …``: the same as `knackbox bench …`."""

import sys

from engine.interfaces.cli.main import run

sys.exit(run(["bench", *sys.argv[1:]]))
