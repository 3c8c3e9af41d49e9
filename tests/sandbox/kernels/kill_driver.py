"""Kills processes with kernels, and parts of them, at random moments, and reports what is left.

It searches the same places as the soak test of boxes, `tests.sandbox.soak.driver`. Arguments: the number of sessions,
the seed, an empty folder. It prints one line of JSON.
"""

import json
import os
import select
import subprocess
import sys
from pathlib import Path

from tests.sandbox.soak import residue
from tests.sandbox.soak.driver import Soak, alone

VICTIMS = ("engine", "provisioner")
PARTS = ("code", "box", "template", "supervisor")
_ROOT = Path(__file__).parents[3]
_DEADLINE_S = 60.0
_MOST_MARKS = 10  # the most marks between two kills
_MOMENT_S = 0.4  # a process has its first kernel after about this time
_IN_ORDER = 0.1  # the share of the victims that are closed instead of killed


class KernelSoak(Soak):
    """Kills kernels at random. Each run is a session with one kernel.

    The files that Jupyter itself writes and leaves behind go into a separate folder.
    """

    def __init__(self, runs: int, seed: int, folder: Path) -> None:
        super().__init__(runs, seed, folder)
        self._jupyter = folder / "jupyter"
        spec = self._jupyter / "kernels" / "boxed"
        spec.mkdir(parents=True)
        named = {"kernel_provisioner": {"provisioner_name": "knackbox", "config": {"workspace": str(self._workspace)}}}
        text = json.dumps({"argv": [], "display_name": "boxed", "language": "python", "metadata": named})
        (self._jupyter / "runtime").mkdir()
        (spec / "kernel.json").write_text(text)
        self._last = ""

    def kill_all(self) -> None:
        """Start victims one after the other, and kill some parts of each, then the victim itself."""
        mounts, sockets = residue.mounts(), residue.unix_sockets()
        while self.report.runs < self._runs:
            which = VICTIMS[self.report.engines % len(VICTIMS)]
            self._begin(which)
            for _ in range(self._random.randint(0, 3)):
                self._wait_a_while()
                self._kill(self._random.choice(PARTS))
            self._wait_a_while()
            self._end(which)
            self._nothing_lives()
        self._begin(VICTIMS[0])  # a process that is started after the last kill removes what that kill left
        self._heard_marks(1)
        self._close()
        self._look_for_residue(mounts, sockets)

    def _begin(self, which: str) -> None:
        self.report.engines += 1
        self._last = ""
        self._engine = subprocess.Popen(
            [sys.executable, "-m", "tests.sandbox.kernels.kill_victims", which, str(self._random.randrange(1 << 30))],
            cwd=_ROOT,
            env={
                **os.environ,
                "TMPDIR": str(self._temporary),
                "JUPYTER_PATH": str(self._jupyter),
                "JUPYTER_RUNTIME_DIR": str(self._jupyter / "runtime"),
                "IPYTHONDIR": str(self._jupyter),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # so that select sees everything that has arrived
        )

    def _wait_a_while(self) -> None:
        self._heard_marks(self._random.randint(1, _MOST_MARKS))
        select.select([], [], [], self._random.random() * _MOMENT_S)

    def _heard_marks(self, marks: int) -> None:
        assert self._engine is not None
        assert self._engine.stdout is not None
        for _ in range(marks):
            ready = select.select([self._engine.stdout], [], [], _DEADLINE_S)[0]
            self._last = self._engine.stdout.read(1).decode() if ready else ""
            if not self._last:
                raise AssertionError(f"the victim ended, or was silent for {_DEADLINE_S:.0f} s ({self.report.seed=})")
            self.report.runs += self._last == "s"
            self.report.ends[self._last] += 1

    def _end(self, which: str) -> None:
        if self.report.kills[which] and self._random.random() < _IN_ORDER:
            self.report.kills["none"] += 1
            self._close()
            return
        assert self._engine is not None
        self._seen.look(self._engine.pid)
        self._engine.kill()
        self._engine.communicate()
        self.report.kills[which] += 1
        if self._last == "s":
            self.report.kills[f"{which} in a start"] += 1

    def _close(self) -> None:
        self._stop()


if __name__ == "__main__":
    alone()
    soak = KernelSoak(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
    soak.kill_all()
    sys.stdout.write(json.dumps(vars(soak.report)) + "\n")
