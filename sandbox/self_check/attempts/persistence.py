"""Attempts to leave something behind for a later box."""

from sandbox.contract import Language
from sandbox.self_check.attempts.attempt import FILTERED, Attempt, AttemptFamily

_ENDS = "a box can only write to its own tmpfs, which is removed with the box"
_FRESH = "every box is a new fork of a template that never runs a job"
_GONE = "all processes of a box are killed when the box ends"
_OWN = "the box's network namespace ends with the box"

# (what is attempted, code of the first job, code of the second job, why it fails)
_ROWS = (
    ("leave a file in /tmp", "open('/tmp/left-x', 'w').close()", "if os.path.exists('/tmp/left-x'): worked()", _ENDS),
    ("leave a file in the job's folder", "open('left-x', 'w').close()", "if os.path.exists('left-x'): worked()", _ENDS),
    ("leave a file in shared memory", "open('/dev/shm/left-x', 'w').close()",
     "if os.path.exists('/dev/shm/left-x'): worked()", _ENDS),
    ("leave a file in the home folder", "open(os.path.expanduser('~/.profile'), 'w').close()",
     "if os.path.exists(os.path.expanduser('~/.profile')): worked()", _ENDS),
    ("leave a changed module", "import json; json.loads = lambda text: 'left-x'; os.left = 'left-x'",
     "import json\nif json.loads('1') != 1 or hasattr(os, 'left'): worked()", _FRESH),
    ("leave a changed builtin", "import builtins; builtins.len = lambda x: 'left-x'", "if len([1]) != 1: worked()",
     _FRESH),
    ("leave an object that was changed through its memory address", """
address = id(257 - 1)
ctypes.memset(id((1, 2, 3)) + 24, 7, 1)
import string
ctypes.memmove(id(string.digits) + 48, b'x', 1)
""", "import string\nif string.digits[0] != '0': worked()", _FRESH),
    ("leave an entry in the import path", "sys.path.insert(0, '/tmp/left-x')", "if '/tmp/left-x' in sys.path: worked()",
     _FRESH),
    ("leave a variable in the environment", "os.environ['LEFT'] = 'x'", "if 'LEFT' in os.environ: worked()", _FRESH),
    ("leave a process that listens on a port", """
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    s = socket.socket(); s.bind(('127.0.0.1', 47112)); s.listen(); time.sleep(30)
""", """
if len([p for p in os.listdir('/proc') if p.isdigit()]) > 4: worked('processes')
socket.create_connection(('127.0.0.1', 47112), 1)
worked()
""", _GONE),
    ("leave a process that keeps the result channel open", """
if os.fork() == 0:
    os.setsid(); time.sleep(30)
""", "'fresh'", _GONE),
    ("leave a lowered resource limit", "resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))",
     "if resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 10: worked()", _FRESH),
    ("leave a signal handler", "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
     "if signal.getsignal(signal.SIGTERM) == signal.SIG_IGN: worked()", _FRESH),
    ("leave a changed umask", "os.umask(0o777)", "if os.umask(0o077) == 0o777: worked()", _FRESH),
    ("leave a listener on an abstract socket", "s = socket.socket(socket.AF_UNIX); s.bind('\\0left-x'); s.listen(); os.fork()",
     "socket.socket(socket.AF_UNIX).connect('\\0left-x')\nworked()", _OWN),
    ("leave a compiled file beside a module", """
import importlib.util, json
path = importlib.util.cache_from_source(json.__file__)
os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
""", "'fresh'", "the packages are read-only"),
    ("leave a seeded random generator", "import random; random.seed(1); print(random.random() * 0)",
     "import random\nif random.random() == 0.13436424411240122: worked()", _FRESH),
    ("predict the next box's random numbers", """
import random; state = random.getstate(); random.random()
open('/tmp/state', 'w').write(str(state))
""", "import random\nif random.getstate()[1][:4] == (2147483648, 1, 1, 1): worked()", _FRESH),
)  # fmt: skip

_FILTER = (
    ("leave System V shared memory", "call(29, 4711, 4096, 0o1666)\nworked()", "call(29, 4711, 4096, 0o666)\nworked()",
     "seccomp refuses the system call, and the ipc namespace ends with the box"),
    ("leave a POSIX message queue", "call(240, b'left-x', 0o102, 0o666, 0)\nworked()", "call(240, b'left-x', 0, 0, 0)\nworked()",
     "seccomp refuses the system call, and the ipc namespace ends with the box"),
    ("leave a key in a keyring of the kernel", "call(248, b'user', b'left-x', b'x', 1, -4)\nworked()", "call(249, b'user', b'left-x', 0, -4)\nworked()",
     "seccomp refuses the system call"),
)  # fmt: skip

ATTEMPTS = (
    *(
        Attempt(AttemptFamily.PERSISTENCE, attempt, Language.PYTHON, first, why, then=then)
        for attempt, first, then, why in _ROWS
    ),
    *(
        Attempt(AttemptFamily.PERSISTENCE, attempt, Language.PYTHON, first, why, then=then, only=FILTERED)
        for attempt, first, then, why in _FILTER
    ),
)
