"""Attempts to forge what the engine receives: a job's answer, end reason, resource usage and files."""

from dataclasses import replace

from sandbox.contract import End, Language, Limits
from sandbox.self_check.attempts.attempt import FILTERED, LIMITS, Attempt, AttemptFamily

_KNOWN = "only known fields of known types are taken from a worker's answer"
_KERNEL = "usage is read from the kernel, never from the job"
_APART = "an answer is sent on a separate descriptor, and printed output is never taken for an answer"

# `send` writes a frame to the descriptor for the answer, and exits.
_SEND = """
import json
def frame(content, body=b''):
    data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
    return struct.pack('!IQ', len(data), len(body)) + data + body
def send(content, body=b'', raw=b''):
    view = memoryview(raw or frame(content, body))
    while view:
        view = view[os.write(3, view):]
    os._exit(0)
F = 'answer' + '-forged'
"""

_ANSWERS = (
    ("report that the box itself failed", "send({'end': 'ok', 'kind': 'failed', 'started': False, 'why': F})", _KNOWN),
    ("report in another field of the answer that the box itself failed", "send({'end': 'ok', 'failed': F})", _KNOWN),
    ("report an unknown reason for the end of the job", "send({'end': F})", _KNOWN),
    ("answer with a list", "send([F])", _KNOWN),
    ("answer with an empty string", "send('')", _KNOWN),
    ("answer with text that is not JSON", "send('not json ' + F)", _KNOWN),
    ("answer with bytes that are not text", "send(None, raw=struct.pack('!IQ', 4, 0) + b'\\xff\\xfe\\xfd\\xfc')", _KNOWN),
    ("report an error that is a string", "send({'end': 'error', 'error': F})", _KNOWN),
    ("report an error whose fields have wrong types", "send({'end': 'error', 'error': {'type': 1, 'message': None, 'traceback': []}})",
     _KNOWN),
    ("report an error with an unpaired surrogate", "send('{\"end\": \"error\", \"error\": {\"message\": \"\\\\ud800\"}}')", _KNOWN),
    ("report an error of several megabytes", "send({'end': 'error', 'error': {'type': 'E', 'message': 'm' * (3 << 20)}})",
     _KNOWN),
    ("report an impossible exit code", "send({'end': 'ok', 'exit_code': 10**30, 'signal': {}})", _KNOWN),
    ("report a negative exit code", "send({'end': 'ok', 'exit_code': -9})", _KNOWN),
    ("report an impossible signal", "send({'end': 'ok', 'exit_code': 0, 'signal': 900})", _KNOWN),
    ("report false resource usage", "send({'end': 'ok', 'usage': {'cpu_s': -1, 'peak_memory_bytes': -1, 'limits_hit': [F]}})",
     _KERNEL),
    ("return files that nobody requested", "send({'end': 'ok', 'files': [[F, 5]]}, b'hello')", _KNOWN),
    ("return a number instead of files", "send({'end': 'ok', 'files': 7})", _KNOWN),
    ("report a timeout before the time limit", "send({'end': 'timeout'})", _KNOWN),
    ("report that the job was killed", "send({'end': 'killed'})", _KNOWN),
    ("report a violation of the policy", "send({'end': 'policy'})", _KNOWN),
    ("return a value nested a hundred thousand levels deep", "send('{\"end\": \"ok\", \"value\": ' + '[' * 10**5 + ']' * 10**5 + '}')",
     _KNOWN),
    ("return a value nested deeply enough to make JSON readers fail", "send('{\"end\": \"ok\", \"value\": ' + '[' * 900 + ']' * 900 + '}')",
     _KNOWN),
    ("return a number of a million digits", "send('{\"end\": \"ok\", \"value\": ' + '9' * 10**6 + '}')", _KNOWN),
    ("announce more bytes than the answer has", "send(None, raw=struct.pack('!IQ', 1 << 31, 1 << 62) + b'{}')", _KNOWN),
    ("send half of the header of an answer", "send(None, raw=b'\\0\\0')", _KNOWN),
    ("send a second answer after the first", "send(None, raw=frame({'end': 'ok', 'value': 1}) + "
     "frame({'end': 'ok', 'value': F}))", "one answer is read, and the rest is dropped"),
    ("send an answer larger than the size limit", "send(None, raw=struct.pack('!IQ', 1 << 30, 0) + b'x' * (20 << 20))",
     "the size of an answer is limited"),
)  # fmt: skip

_PRINTED = """
for stream in (sys.stdout.buffer, sys.stderr.buffer):
    stream.write(frame({'end': 'ok', 'exit_code': 0, 'value': F})); stream.flush()
'real'
"""
# The streams are left out, since anything written to them is output.
_FROM_A_CHILD = """
streams = {os.fstat(n).st_ino for n in (1, 2)}
if os.fork() == 0:
    for path in glob.glob('/proc/[0-9]*/fd/*'):
        try:
            if os.stat(path).st_ino not in streams:
                os.write(os.open(path, os.O_WRONLY | os.O_NONBLOCK), frame({'end': 'ok', 'value': F}))
        except OSError: pass
    os._exit(0)
os.wait()
'real'
"""
# The child of a raw fork has every descriptor of its parent, because no Python handler closes them.
_INHERITED = """
if libc.fork() == 0:
    libc.write(3, frame({'end': 'ok', 'value': F}), len(frame({'end': 'ok', 'value': F})))
    libc._exit(0)
os.wait()
'real'
"""
_HANDED_ON = """
os.set_inheritable(3, True)
subprocess.run(['/bin/sh', '-c', 'cat >&3'], input=frame({'end': 'ok', 'value': F}), close_fds=False)
'real'
"""
_FLOOD = """
os.set_inheritable(3, True)
flood = subprocess.Popen(['/bin/sh', '-c', 'while :; do echo answer"-"forged >&3; done'], close_fds=False)
while True: pass
"""
_LATE = """
if os.fork() == 0:
    os.setsid(); time.sleep(0.05)
    os.write(3, frame({'end': 'ok', 'value': F})); os._exit(0)
'real'
"""
_HANDLER = """
class Sly(dict):
    def items(self): raise SystemExit(F)
class Loud(Exception):
    def __str__(self): raise KeyboardInterrupt
    __repr__ = __str__
raise Loud
"""
_NODE = """
for (let n = 3; n < 32; n++) {
  try { fs.writeSync(n, Buffer.concat([Buffer.alloc(12), Buffer.from('{"end":"ok","value":"answer' + '-forged"}')])) }
  catch (problem) {}
}
"""
_BASH = """
for n in 3 4 5 6 7 8 9; do eval "printf '{\\"end\\":\\"ok\\",\\"value\\":\\"answer'-'forged\\"}' >&$n" 2>/dev/null; done
"""

_CLOCK = Limits(wall_s=0.5, cpu_s=5, memory_bytes=LIMITS.memory_bytes)

ATTEMPTS = (
    *(
        Attempt(AttemptFamily.FORGING, attempt, Language.PYTHON, _SEND + code, why, raises=("*",), only=FILTERED)
        for attempt, code, why in _ANSWERS
    ),
    Attempt(AttemptFamily.FORGING, "print what looks like an answer", Language.PYTHON, _SEND + _PRINTED, _APART),
    Attempt(
        AttemptFamily.FORGING,
        "write an answer to every descriptor of the other processes",
        Language.PYTHON,
        _SEND + _FROM_A_CHILD,
        "the channel is a socket, which cannot be opened through /proc",
    ),
    Attempt(
        AttemptFamily.FORGING,
        "answer from a child process that the C library forked",
        Language.PYTHON,
        _SEND + _INHERITED,
        "Linux identifies the sender of a message, and only the worker's messages are accepted",
    ),
    Attempt(
        AttemptFamily.FORGING,
        "let another program send the answer",
        Language.PYTHON,
        _SEND + _HANDED_ON,
        "Linux identifies the sender of a message, and only the worker's messages are accepted",
    ),
    Attempt(
        AttemptFamily.FORGING,
        "send a flood of answers, so that process 1 cannot enforce the CPU limit",
        Language.PYTHON,
        _FLOOD,
        "process 1 checks the limits on a schedule, even during a flood",
        ends=(End.CPU,),
        limits=replace(_CLOCK, wall_s=8, cpu_s=1, processes=16),
    ),
    Attempt(
        AttemptFamily.FORGING,
        "write another answer from a daemon after the job has answered",
        Language.PYTHON,
        _SEND + _LATE,
        "one answer is read, and then all processes of the box are killed",
        only=FILTERED,
    ),
    Attempt(
        AttemptFamily.FORGING,
        "fail with an exception that cannot be converted to text",
        Language.PYTHON,
        _SEND + _HANDLER,
        "the report says that the exception cannot be converted to text",
        raises=("Loud", "KeyboardInterrupt"),
    ),
    Attempt(
        AttemptFamily.FORGING,
        "send no answer and keep the descriptor for the answer open",
        Language.PYTHON,
        "time.sleep(20)",
        "process 1 enforces the time limit",
        ends=(End.TIMEOUT,),
        limits=_CLOCK,
    ),
    Attempt(
        AttemptFamily.FORGING,
        "close every descriptor and keep running",
        Language.PYTHON,
        "os.closerange(0, 256)\ntime.sleep(20)",
        "process 1 enforces the time limit",
        ends=(End.TIMEOUT, End.ERROR),
        limits=_CLOCK,
    ),
    Attempt(
        AttemptFamily.FORGING,
        "exit with success before the job is done",
        Language.PYTHON,
        "os._exit(0)",
        "without an answer, the job has no return value",
        ends=(End.OK, End.ERROR),
    ),
    Attempt(
        AttemptFamily.FORGING,
        "answer from Node",
        Language.NODE,
        _NODE,
        "Node and Bash get no descriptor for an answer",
        raises=("*",),  # it also writes to the pipes that Node uses internally
    ),
    Attempt(
        AttemptFamily.FORGING, "answer from Bash", Language.BASH, _BASH, "Node and Bash get no descriptor for an answer"
    ),
)
