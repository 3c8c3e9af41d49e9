"""`DirectUsage`: computes, in the engine, the resource use of a job in a direct box.

Process 1 reports what the kernel counted, the worker what it had used before the job, the template what it used when it
was reaped, and the supervisor what it saw while the job ran.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.linux import cgroups, readings
from sandbox.linux.watch import Used
from sandbox.namespace.process_one import BoxReport
from sandbox.namespace.worker_report import WorkerReport

_WORKER_PID = b"2"  # in the box; process 1 is the first, and the worker is forked before anything else
_UNKNOWN = {"cpu_s": 0.0, "own_bytes": 0, "peak_bytes": 0}


@dataclass(frozen=True, slots=True)
class MeasuredUse:
    """The resource use of a job, as far as it is known at its end; the counterpart of `TreeWatch`.

    Attributes:
        cpu_limit_s: The job's limit on CPU time, in seconds.
        found: The limits that were reached, as far as others than this class have noticed.
        peak_bytes: The highest memory use that the supervisor saw.
        peak_before: The peak memory of the worker before the job.
    """

    cpu_limit_s: float
    found: frozenset[str]
    peak_bytes: int
    peak_before: int

    def hits(self, used: Used) -> list[str]:
        """Return the limits that were reached at some point."""
        return sorted(self.found | ({"cpu"} if used.cpu_s >= self.cpu_limit_s else set()))

    def peak(self, used: Used) -> int:
        """Return the peak memory in bytes."""
        return max(self.peak_bytes, used.max_rss_bytes - self.peak_before, 0)


class DirectUsage:
    """Combines the reports on one job."""

    def __init__(self, worker: WorkerReport) -> None:
        self._worker = worker
        self._cpu_at_start = b""  # the text of the control group's counter when the job was sent

    def begin(self, report: BoxReport) -> None:
        """Note the counter of the control group when the job was sent.

        Call it only for a worker that waited before: otherwise the counter still contains the worker's preparation.
        """
        self._cpu_at_start = report.cpu

    def of_worker(self, report: BoxReport) -> Used | None:
        """Return what the stopped worker has used; None if the box ever had another process or thread."""
        if report.load.rsplit(None, 1)[-1:] != [_WORKER_PID]:  # the last pid given out in the box
            return None
        peak = readings.field_bytes(report.status, b"VmHWM:")
        if not peak:  # it has ended already, so what it used is known once it is reaped
            return None
        if report.cpu:
            return Used(self._of_group(report), peak)
        return Used(max(0.0, readings.cpu_clock_s(self._worker.pid) - self._before["cpu_s"]), peak)

    def of_all(self, report: BoxReport, cpu_s: float, peak_bytes: int, cpu_seen_s: float) -> Used:
        """Return what all processes of the box used. Call it after they have ended.

        Args:
            report: The report on their end.
            cpu_s: The CPU time of the worker.
            peak_bytes: The peak memory of the worker.
            cpu_seen_s: The CPU time of all processes that the supervisor saw.
        """
        if report.cpu:
            used_s = self._of_group(report)
        else:
            used_s = max(0.0, cpu_s + report.reaped_cpu_s - self._before["cpu_s"], cpu_seen_s)
        return Used(used_s, max(peak_bytes, report.reaped_rss_bytes))

    def measured(self, report: BoxReport, found: Mapping[str, Any], cpu_limit_s: float) -> MeasuredUse:
        """Return what is known at the end. `found` is what the supervisor found (`OutsideWatch.findings`)."""
        hits = {*found["hits"]}
        if report.full:
            hits.add("disk")
        if report.memory and cgroups.memory_refused(report.memory):
            hits.add("memory")
        return MeasuredUse(cpu_limit_s, frozenset(hits), found["peak_bytes"], int(self._before["peak_bytes"]))

    @property
    def _before(self) -> Mapping[str, float]:
        return self._worker.before or _UNKNOWN

    def _of_group(self, report: BoxReport) -> float:
        before = cgroups.cpu_s(self._cpu_at_start) if self._cpu_at_start else self._before["cpu_s"]
        return max(0.0, cgroups.cpu_s(report.cpu) - before)
