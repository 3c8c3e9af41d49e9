"""Checks that a program behaves in a box as it does outside: its forks, streams, exit and finalizers."""

from sandbox.contract import Call, End, Job, Limits, Sandbox
from sandbox.self_check.check import Check, require

_CHILD_EXITS = """
import os, sys
if os.fork() == 0:
    print('child', flush=True)
    sys.exit(7)
_, status = os.wait()
print('parent', os.waitstatus_to_exitcode(status), flush=True)
'from the parent'
"""
_CHILD_RETURNS = b"""
import os
def f():
    if os.fork() == 0:
        return 'from the child'
    os.wait()
    return 'from the parent'
"""
_CHILD_FAILS = """
import os
if os.fork() == 0:
    raise ValueError('in the child')
_, status = os.wait()
os.waitstatus_to_exitcode(status)
"""
# A forked child and another program write answers to the descriptors that they inherit or reopen through /proc. Only
# the process that received the job may answer.
_CHILD_REPORTS = """
import json, os, struct, subprocess, sys
text = json.dumps({'end': 'ok', 'exit_code': 0, 'value': 'forged'}).encode()
frame = struct.pack('!IQ', len(text), 0) + text
descriptors = [int(n) for n in os.listdir('/proc/self/fd') if int(n) > 2]
keep = [os.dup(n) for n in descriptors if os.path.exists(f'/proc/self/fd/{n}')]
if os.fork() == 0:
    for n in keep:
        try: os.write(n, frame)
        except OSError: pass
        try: os.write(os.open(f'/proc/{os.getppid()}/fd/{n}', os.O_RDWR | os.O_NONBLOCK), frame)
        except OSError: pass
    os._exit(0)
os.wait()
subprocess.run([sys.executable, '-c', f'import os\\nfor n in {keep}: os.write(n, {frame})'], pass_fds=keep, stderr=-3)
'real'
"""
_STREAMS = """
import io, sys
sys.stdout.reconfigure(encoding='utf-8', line_buffering=True)
wrapped = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')
print('text', sys.stdin.read(), file=wrapped, flush=True)
wrapped.detach()
[sys.stdout.seekable(), sys.stderr.seekable(), sys.stdout.isatty(), sys.stdin.seekable()]
"""
_FINALIZED = """
import subprocess, sys
class Loud:
    def __del__(self): print('finalized')
loud = Loud()
left_open = open('kept.txt', 'w')
left_open.write('written')
exit(3)
"""
_OWN_STACK = """
import io, traceback
text = io.StringIO()
traceback.print_stack(file=text)
[line for line in text.getvalue().splitlines() if 'sandbox/' in line]
"""
_POOL = """
import threading
from concurrent.futures import ThreadPoolExecutor
together = threading.Barrier(100)
with ThreadPoolExecutor(100) as pool:
    reached = list(pool.map(lambda n: together.wait(20), range(100)))
len(set(reached))
"""
# There are far more orphans than the limit allows, so process 1 must reap them. On a busy machine, several dozen may be
# alive before process 1 is scheduled, so a refused fork is tried again.
_ORPHANS = """
import os, time
def fork():
    deadline = time.monotonic() + 10
    while True:
        try: return os.fork()
        except BlockingIOError:
            if time.monotonic() > deadline: raise
            time.sleep(0.01)
for _ in range(300):
    if fork() == 0:
        fork()
        os._exit(0)
    os.wait()
'done'
"""


async def _a_child_that_exits_does_not_end_the_job(sandbox: Sandbox) -> None:
    outcome = await sandbox.run(Job(code=_CHILD_EXITS))
    seen = (outcome.value, outcome.stdout.split())
    require(outcome.ok and seen == ("from the parent", [b"child", b"parent", b"7"]), outcome)


async def _a_child_does_not_return_for_its_parent(sandbox: Sandbox) -> None:
    outcome = await sandbox.run(Job(files={"f.py": _CHILD_RETURNS}, call=Call("f.py", "f")))
    require(outcome.ok and outcome.value == "from the parent", outcome)


async def _a_child_fails_on_its_own(sandbox: Sandbox) -> None:
    outcome = await sandbox.run(Job(code=_CHILD_FAILS))
    require(outcome.ok and outcome.value == 1 and b"ValueError: in the child" in outcome.stderr, outcome)


async def _only_the_worker_reports(sandbox: Sandbox) -> None:
    outcome = await sandbox.run(Job(code=_CHILD_REPORTS))
    require(outcome.ok and outcome.value == "real", outcome)


async def _streams_are_those_of_a_program(sandbox: Sandbox) -> None:
    outcome = await sandbox.run(Job(code=_STREAMS, stdin=b"in"))
    require(outcome.ok and outcome.value == [False, False, False, True], outcome)
    require(outcome.stdout == b"text in\n", outcome)


async def _a_program_is_finalized(sandbox: Sandbox) -> None:
    outcome = await sandbox.run(Job(code=_FINALIZED, collect=("kept.txt",)))
    require((outcome.end, outcome.exit_code, outcome.stdout) == (End.ERROR, 3, b"finalized\n"), outcome)
    require(outcome.files == {"kept.txt": b"written"}, outcome)


async def _source_may_begin_with_a_byte_order_mark(sandbox: Sandbox) -> None:
    outcome = await sandbox.run(Job(code="\ufeff6 * 7"))
    require(outcome.ok and outcome.value == 6 * 7, outcome)


async def _a_traceback_names_no_file_of_the_host(sandbox: Sandbox) -> None:
    shown = await sandbox.run(Job(code=_OWN_STACK))
    require(shown.ok and shown.value == [], shown)
    syntax = await sandbox.run(Job(code="def f(:"))
    error = syntax.error
    require(error is not None and error.type == "SyntaxError", syntax)
    if error is not None:
        require(error.traceback.lstrip().startswith('File "main.py", line 1'), error.traceback)


async def _a_value_is_text_that_can_be_encoded(sandbox: Sandbox) -> None:
    outcome = await sandbox.run(Job(code="{'a\\udcff': ['\\ud800', '\\U0001f600', 'plain']}"))
    require(outcome.ok and outcome.value == {"a\ufffd": ["\ufffd", "\U0001f600", "plain"]}, outcome)


async def _threads_are_not_processes(sandbox: Sandbox) -> None:
    outcome = await sandbox.run(Job(code=_POOL, limits=Limits(processes=4)))
    require(outcome.ok and outcome.value == 100 and not outcome.usage.limits_hit, outcome)  # noqa: PLR2004


async def _orphans_are_reaped(sandbox: Sandbox) -> None:
    outcome = await sandbox.run(Job(code=_ORPHANS, limits=Limits(processes=64, threads=64)))
    require(outcome.ok and outcome.value == "done", outcome)


CHECKS = (
    Check("programs", "a forked child that exits does not end the job", _a_child_that_exits_does_not_end_the_job),
    Check("programs", "a value that a forked child returns is not the result", _a_child_does_not_return_for_its_parent),
    Check("programs", "an error in a forked child does not fail the job", _a_child_fails_on_its_own),
    Check("programs", "only the process that received the job can report a result", _only_the_worker_reports),
    Check("programs", "the threads of a thread pool do not count as processes", _threads_are_not_processes),
    Check("programs", "orphaned processes are reaped while the job runs", _orphans_are_reaped),
    Check("programs", "standard streams can be wrapped and reconfigured", _streams_are_those_of_a_program),
    Check("programs", "finalizers run and files are flushed at the end", _a_program_is_finalized),
    Check("programs", "source code may begin with a byte-order mark", _source_may_begin_with_a_byte_order_mark),
    Check("programs", "a traceback names no file of the host", _a_traceback_names_no_file_of_the_host),
    Check("programs", "text in a value can always be encoded", _a_value_is_text_that_can_be_encoded),
)
