"""``python -m bench …``, as `knackbox bench …`."""

import sys

from engine.faces.cli.main import run

sys.exit(run(["bench", *sys.argv[1:]]))
