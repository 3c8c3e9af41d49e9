"""Attempts to stop, delay or kill processes of the host, or process 1 of the box."""

from sandbox.contract import End, Language, Limits
from sandbox.self_check.attempts.attempt import FILTERED, LIMITS, Attempt, AttemptFamily

_OWN_PIDS = "a pid of the host has no meaning in the box's pid namespace"
_INIT = (
    "process 1 of a pid namespace ignores every signal from inside the namespace that it does not handle, even SIGKILL"
)
_ONLY_SELF = "seccomp allows a process to make this system call only on itself, because process 1 runs as the same user"
# Process 1 enforces the time limit. If the job could stop process 1, the job would not end with a timeout.
_CLOCK = Limits(wall_s=0.5, cpu_s=5, memory_bytes=LIMITS.memory_bytes)

_ROWS = (
    ("kill a host process", "os.kill(@PID@, 9)", _OWN_PIDS),
    ("stop a host process", "os.kill(@PID@, 19)", _OWN_PIDS),
    ("kill a host process through a pidfd", "signal.pidfd_send_signal(os.pidfd_open(@PID@), 9)\nworked()", _OWN_PIDS),
    ("give a host process a low priority", "os.setpriority(os.PRIO_PROCESS, @PID@, 19)", _OWN_PIDS),
    ("limit the open files of a host process", "resource.prlimit(@PID@, resource.RLIMIT_NOFILE, (0, 0))", _OWN_PIDS),
    ("kill process group 1", "os.killpg(1, 9)", _OWN_PIDS),
)

_PROCESS_1 = (
    ("limit the open files of process 1", "resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))\nworked()", _ONLY_SELF),
    ("limit the CPU time of process 1", "resource.prlimit(1, resource.RLIMIT_CPU, (1, 1))\nworked()", _ONLY_SELF),
    ("read the resource limits of process 1", "reach(302, 1, 7, 0, ctypes.create_string_buffer(16))", _ONLY_SELF),
    ("give process 1 a low priority", "os.setpriority(os.PRIO_PROCESS, 1, 19)\nworked()", _ONLY_SELF),
    ("give every process of the user a low priority", """
refused(lambda: os.setpriority(os.PRIO_USER, 0, 7))
if os.getpriority(os.PRIO_PROCESS, 1) == 7: worked()
""", _ONLY_SELF),
    ("lower the disk priority of process 1",
     "reach(251, 1, 1, 3 << 13)", _ONLY_SELF),
    ("lower the disk priority of every process of the user", """
try: call(251, 3, 0, (2 << 13) | 7)
except OSError: pass
if call(252, 1, 1) == (2 << 13) | 7: worked()
""", _ONLY_SELF),
    ("restrict process 1 to one processor", "os.sched_setaffinity(1, [0])\nworked()", _ONLY_SELF),
    ("give process 1 the idle scheduling policy", "os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))\nworked()", _ONLY_SELF),
    ("give process 1 the deadline scheduling policy", "reach(314, 1, struct.pack('IIQiIQQQ', 48, 3, 0, 0, 0, 0, 0, 0), 0)", _ONLY_SELF),
    ("make the job not dumpable, to hide its memory", "reach(157, 4, 0, 0, 0, 0)",
     "seccomp refuses PR_SET_DUMPABLE 0: process 1 must be able to read the job's memory use"),
)  # fmt: skip

_SURVIVES = (
    ("kill process 1", "for n in (9, 15, 2, 3, 6): os.kill(1, n)"),
    ("stop process 1", "os.kill(1, 19); os.kill(1, 20)"),
    ("crash process 1", "for n in (4, 7, 8, 11, 31): os.kill(1, n)"),
    ("kill process 1 with a real-time signal that carries data", "call(129, 1, 64, bytes(128))"),
    ("kill process 1 through a pidfd", "signal.pidfd_send_signal(os.pidfd_open(1), 9)"),
    (
        "make the kernel kill process 1 when input arrives",
        """
a, b = os.pipe()
fcntl.fcntl(a, fcntl.F_SETOWN, 1)
fcntl.fcntl(a, 10, 9)  # F_SETSIG, SIGKILL
fcntl.fcntl(a, fcntl.F_SETFL, fcntl.fcntl(a, fcntl.F_GETFL) | os.O_ASYNC)
os.write(b, b'x')
""",
    ),
    (
        "make a timer of the kernel signal process 1",
        """
timer = ctypes.c_int()
event = struct.pack('QiiI44x', 0, 9, 4, 1)  # SIGKILL by SIGEV_THREAD_ID to thread 1
call(222, 1, event, ctypes.byref(timer))
call(223, timer.value, 0, struct.pack('4q', 0, 0, 0, 1000000), 0)
""",
    ),
)

ATTEMPTS = (
    *(Attempt(AttemptFamily.SIGNALS, attempt, Language.PYTHON, code, why) for attempt, code, why in _ROWS),
    *(
        Attempt(AttemptFamily.SIGNALS, attempt, Language.PYTHON, code, why, only=FILTERED)
        for attempt, code, why in _PROCESS_1
    ),
    *(
        Attempt(
            AttemptFamily.SIGNALS,
            attempt,
            Language.PYTHON,
            f"try:\n    {code.strip().replace(chr(10), chr(10) + '    ')}\nexcept OSError: pass\ntime.sleep(20)",
            _INIT,
            ends=(End.TIMEOUT,),
            limits=_CLOCK,
            only=FILTERED,
        )
        for attempt, code in _SURVIVES
    ),
    Attempt(
        AttemptFamily.SIGNALS,
        "kill every process",
        Language.PYTHON,
        "os.kill(-1, 9)",
        "the signal reaches only processes in the box",
        ends=(End.OK, End.ERROR, End.KILLED),
        beside=True,
        only=FILTERED,
    ),
    Attempt(
        AttemptFamily.SIGNALS,
        "ignore every signal and keep running",
        Language.PYTHON,
        "for n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
        "time.sleep(20)",
        "the job is killed with SIGKILL, which cannot be ignored",
        ends=(End.TIMEOUT,),
        limits=_CLOCK,
    ),
    Attempt(
        AttemptFamily.SIGNALS,
        "keep a stopped process alive",
        Language.PYTHON,
        "os.kill(os.getpid(), 19)\nworked()",
        "a stopped process is killed like any other at the time limit",
        ends=(End.TIMEOUT,),
        limits=_CLOCK,
    ),
    Attempt(
        AttemptFamily.SIGNALS,
        "keep a daemon alive that forks endlessly",
        Language.PYTHON,
        "if os.fork() == 0:\n    os.setsid()\n    while True:\n        if os.fork(): os._exit(0)\ntime.sleep(20)",
        "process 1 kills all processes at once, and the pid namespace ends with process 1",
        ends=(End.TIMEOUT, End.CPU, End.PROCESSES),
        limits=_CLOCK,
    ),
)
