"""Determines why a job ended if the job's report does not say it.

For Python, the worker derives the reason from the exception, unless no memory is left for the report. Node and Bash
only provide an exit code and an error message. The job's code controls the message, so nothing is derived from it
except the reason why the same job ended.
"""

import re
from dataclasses import replace

from sandbox.contract import End, Job, Language, Outcome

_SAID = (
    (
        End.MEMORY,
        re.compile(rb"(heap|process) out of memory|Cannot allocate memory|ENOMEM|xmalloc|std::bad_alloc|MemoryError"),
    ),
    (End.DISK, re.compile(rb"No space left on device|ENOSPC")),
    (End.FILES, re.compile(rb"Too many open files|EMFILE")),
    (End.FILE_SIZE, re.compile(rb"File too large|EFBIG|File size limit exceeded")),
    (End.PROCESSES, re.compile(rb"fork: .*Resource temporarily unavailable|spawn .*EAGAIN|fork: retry")),
    (End.CPU, re.compile(rb"CPU time limit exceeded")),
)
_TAIL = 4096
_SHELL_SIGNALLED = 128  # a shell's exit code for a child killed by a signal is 128 + its number
_BY_SHELL_CODE = {_SHELL_SIGNALLED + 24: End.CPU, _SHELL_SIGNALLED + 25: End.FILE_SIZE}


def with_end_reason(job: Job, outcome: Outcome) -> Outcome:
    """Return the outcome with the end that its memory use or error output indicates.

    If neither indicates an end, return the outcome unchanged.
    """
    if outcome.end is not End.ERROR:
        return outcome
    if job.language is Language.PYTHON:
        # A process that has no memory left for a report ends without a report.
        full = outcome.usage.peak_memory_bytes >= job.limits.memory_bytes
        return _with_end(outcome, End.MEMORY) if full and outcome.error is None else outcome
    end = _BY_SHELL_CODE.get(outcome.exit_code or 0)
    if end is None:
        tail = outcome.stderr[-_TAIL:]
        end = next((end for end, pattern in _SAID if pattern.search(tail)), None)
    if end is None:
        return outcome
    return _with_end(outcome, end)


def _with_end(outcome: Outcome, end: End) -> Outcome:
    hit = tuple(dict.fromkeys((*outcome.usage.limits_hit, end.value)))
    return replace(outcome, end=end, usage=replace(outcome.usage, limits_hit=hit))
