"""The command of our kernelspec: refuses. `python -m sandbox.kernels.no_provisioner`

Jupyter's own programs ask the provisioner that the kernelspec names, and never run its command. A tool that knows
nothing of provisioners runs it; were it ipykernel's, a notebook would run outside of any box, and nobody would notice.
"""

import sys

_WHY = (
    "knackbox: this kernel runs in a box only, and the program that started it knows nothing of kernel provisioners. "
    "Open the notebook with JupyterLab, nbclient or papermill on jupyter_client 7 or newer."
)


def main() -> int:
    """Say so; the exit code."""
    sys.stderr.write(_WHY + "\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
