"""Attempts to exhaust time, disk, output, processes and files, each in several ways."""

from sandbox.contract import End, Language, Limits
from sandbox.self_check.attempts.attempt import LIMITS, MB, Attempt, AttemptFamily

PYTHON, NODE, BASH = Language.PYTHON, Language.NODE, Language.BASH
_WHOLE = "the CPU time of all processes of the box is counted, including that of ended processes"
_CLOCK = "the wall-clock limit is enforced outside the job"
_DISK = "the box can only write to one tmpfs, whose size and inodes are limited"
_OUTPUT = "output is counted as it arrives, and the job is ended when its output exceeds the limit"
_PROCESSES = "RLIMIT_NPROC limits the processes, which are counted in the box's own user namespace"
_FILES = "RLIMIT_NOFILE"
_SIZE = "RLIMIT_FSIZE"

_CPU = Limits(wall_s=15, cpu_s=1, memory_bytes=256 * MB, processes=32)
_WALL = Limits(wall_s=0.5, cpu_s=30, memory_bytes=256 * MB, processes=32)
_PRINT = Limits(wall_s=10, cpu_s=8, memory_bytes=128 * MB, output_bytes=1 * MB)
_FILE = Limits(wall_s=10, memory_bytes=128 * MB, file_size_bytes=1 * MB)

_CPU_WAYS = (
    ("use CPU time endlessly", PYTHON, "while True: pass", _WHOLE),
    ("use CPU time in Bash endlessly", BASH, "while :; do :; done", _WHOLE),
    ("use CPU time in Node endlessly", NODE, "for (;;) {}", _WHOLE),
    ("use CPU time in many processes", PYTHON, "os.fork(); os.fork()\nwhile True: pass", _WHOLE),
    ("use CPU time in many threads of many processes", PYTHON, """
os.fork(); os.fork()
for _ in range(3): threading.Thread(target=lambda: [pow(3, 10**6, 10**400 + n) for n in range(10**6)]).start()
""", _WHOLE),
    ("use CPU time in short processes, one after the other", PYTHON, """
while True:
    if os.fork() == 0:
        end = time.process_time() + 0.1
        while time.process_time() < end: pass
        os._exit(0)
    os.wait()
""", _WHOLE),
    ("use CPU time in processes that nobody waits for", PYTHON, """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        end = time.process_time() + 0.3
        while time.process_time() < end: pass
        os._exit(0)
    try: os.wait()
    except ChildProcessError: pass
""", _WHOLE),
    ("use CPU time in daemons, one after the other", PYTHON, """
def work():
    while True:
        if os.fork(): os._exit(0)
        os.setsid()
        end = time.process_time() + 0.2
        while time.process_time() < end: pass
if os.fork() == 0: work()
time.sleep(20)
""", _WHOLE),
    ("ignore the signal of the CPU limit", PYTHON,
     "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass", _WHOLE),
    ("match a regular expression that never finishes", PYTHON, "import re\nre.match(r'(a+)+$', 'a' * 60 + 'b')", _WHOLE),
    ("use CPU time in system calls", PYTHON, "f = os.open('/dev/zero', os.O_RDONLY)\nb = bytearray(32 << 20)\n"
     "while True: os.readv(f, [b])", _WHOLE),
)  # fmt: skip

_WALL_WAYS = (
    ("sleep", PYTHON, "time.sleep(60)"),
    ("sleep and ignore the signals that usually end a process", PYTHON,
     "for n in (1, 2, 3, 15): signal.signal(n, signal.SIG_IGN)\ntime.sleep(60)"),
    ("wait for input that never comes", PYTHON, "a, b = os.pipe()\nos.read(a, 1)"),
    ("deadlock on a lock", PYTHON, "lock = threading.Lock(); lock.acquire(); lock.acquire()"),
    ("open a pipe that has no writer", PYTHON, "os.mkfifo('p'); open('p').read()"),
    ("leave a thread running forever", PYTHON, "threading.Thread(target=threading.Event().wait).start()"),
    ("never return from an exit handler", PYTHON, "import atexit\natexit.register(time.sleep, 60)"),
    ("return a value whose conversion to JSON never ends", PYTHON, "class Slow(dict):\n    def __repr__(self): time.sleep(60)\n"
     "    def items(self): time.sleep(60)\nSlow(a=object())"),
    ("sleep in Bash and ignore the signals that usually end a process", BASH, "trap '' TERM INT HUP QUIT; sleep 60; sleep 60"),
    ("never leave Node's event loop", NODE, "setInterval(() => {}, 1000)"),
)  # fmt: skip

_DISK_WAYS = (
    ("fill the job's folder", PYTHON, "open('f', 'wb').write(b'x' * (40 << 20))", (End.DISK,)),
    ("fill /tmp with files", PYTHON, "for n in range(100): open(f'/tmp/{n}', 'wb').write(b'x' * (1 << 20))", (End.DISK,)),
    ("fill shared memory", NODE, "fs.writeFileSync('/dev/shm/f', Buffer.alloc(40e6))", (End.DISK,)),
    ("fill the disk from Bash", BASH, "head -c 40M /dev/zero > /tmp/f", (End.DISK,)),
    ("use up the inodes", PYTHON, "for n in range(200000): os.close(os.open(str(n), os.O_CREAT))", (End.DISK, End.CPU)),
    ("fill the disk by writing to a sparse file, part by part",
     PYTHON, "f = open('f', 'wb'); f.truncate(60 << 20)\nfor n in range(60): f.seek(n << 20); f.write(b'x' * (1 << 20))",
     (End.DISK,)),
    ("reserve disk space", PYTHON, "f = open('f', 'wb'); os.posix_fallocate(f.fileno(), 0, 60 << 20)", (End.DISK,)),
    ("fill the disk with unnamed files",
     PYTHON, "x = []\nwhile True: x.append(os.open('/tmp', os.O_TMPFILE | os.O_RDWR)); os.write(x[-1], bytes(4 << 20))",
     (End.DISK, End.FILES)),
    ("fill the disk with deleted files that stay open",
     PYTHON, "x = []\nwhile True:\n    x.append(open('f', 'wb')); x[-1].write(bytes(4 << 20)); x[-1].flush(); os.unlink('f')",
     (End.DISK, End.FILES)),
)  # fmt: skip

_OUTPUT_WAYS = (
    ("print endlessly", PYTHON, "while True: print('x' * 1000)"),
    ("print endlessly to stderr", BASH, "yes >&2"),
    ("print endlessly from Node", NODE, "for (;;) fs.writeSync(1, 'x'.repeat(1000))"),
    ("print endlessly from many processes", PYTHON, "os.fork(); os.fork()\nwhile True: os.write(1, b'x' * 1000)"),
    ("print one endless line", PYTHON, "while True: os.write(2, b'x' * 65536)"),
    ("print endlessly from a daemon", PYTHON,
     "if os.fork() == 0:\n    os.setsid()\n    while True: os.write(1, b'x' * 1000)\ntime.sleep(20)"),
)  # fmt: skip

_PROCESS_WAYS = (
    ("fork endlessly", PYTHON, "while True:\n    if os.fork() == 0: time.sleep(20)"),
    ("fork endlessly, in every new process as well", PYTHON, "while True: os.fork()"),
    ("fork bomb in Bash", BASH, "bomb() { bomb | bomb & }; bomb; sleep 20"),
    ("start programs endlessly", PYTHON, "p = [subprocess.Popen(['sleep', '20']) for _ in range(200)]"),
    ("start threads endlessly", PYTHON,
     "while True: threading.Thread(target=threading.Event().wait, daemon=True).start()"),
    ("call clone endlessly, without the C library", PYTHON, "while call(56, 17, 0, 0, 0, 0): pass\ntime.sleep(20)"),
    ("start child processes endlessly, and leave each as a zombie", PYTHON, "while True:\n    if os.fork() == 0: os._exit(0)"),
)  # fmt: skip

_FILE_WAYS = (
    ("open files endlessly", PYTHON, "x = []\nwhile True: x.append(open('/dev/null'))"),
    ("open files endlessly in Node", NODE, "for (;;) fs.openSync('/dev/null')"),
    ("open sockets endlessly", PYTHON, "x = []\nwhile True: x.append(socket.socket())"),
    ("open pipes endlessly", PYTHON, "while True: os.pipe()"),
    ("copy a descriptor endlessly", PYTHON, "while True: os.dup(0)"),
    ("open event descriptors endlessly", PYTHON, "while True: os.eventfd(0)"),
)  # fmt: skip

_SIZE_WAYS = (
    ("write a file past the size limit", PYTHON, "open('f', 'wb').write(b'x' * (20 << 20))"),
    ("write a file past the size limit in Bash", BASH, "head -c 20M /dev/zero > f"),
    ("extend a file past the size limit", PYTHON, "open('f', 'wb').truncate(1 << 40)"),
    ("reserve space for a file past the size limit", PYTHON, "f = open('f', 'wb'); os.posix_fallocate(f.fileno(), 0, 4 << 20)"),
    ("write at an offset past the size limit", PYTHON, "f = os.open('f', os.O_CREAT | os.O_RDWR); os.pwrite(f, b'x', 1 << 40)"),
    ("write a file past the size limit and ignore the signal", PYTHON,
     "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nopen('f', 'wb').write(b'x' * (20 << 20))"),
)  # fmt: skip


def _ways(
    rows: tuple[tuple[str, Language, str], ...], end: tuple[End, ...], limits: Limits, why: str
) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(AttemptFamily.EXHAUSTION, attempt, language, code, why, ends=end, limits=limits)
        for attempt, language, code in rows
    )


_FEW_PROCESSES = Limits(wall_s=4, cpu_s=8, memory_bytes=256 * MB, processes=12, threads=24)
_FEW_FILES = Limits(wall_s=20, memory_bytes=256 * MB, open_files=48)

ATTEMPTS = (
    *(
        Attempt(AttemptFamily.EXHAUSTION, attempt, language, code, why, ends=(End.CPU,), limits=_CPU)
        for attempt, language, code, why in _CPU_WAYS
    ),
    *_ways(_WALL_WAYS, (End.TIMEOUT,), _WALL, _CLOCK),
    *(
        Attempt(AttemptFamily.EXHAUSTION, attempt, language, code, _DISK, ends=ends, limits=LIMITS)
        for attempt, language, code, ends in _DISK_WAYS
    ),
    *_ways(_OUTPUT_WAYS, (End.OUTPUT,), _PRINT, _OUTPUT),
    *_ways(_PROCESS_WAYS, (End.PROCESSES, End.ERROR, End.TIMEOUT), _FEW_PROCESSES, _PROCESSES),
    *_ways(_FILE_WAYS, (End.FILES,), _FEW_FILES, _FILES),
    *_ways(_SIZE_WAYS, (End.FILE_SIZE,), _FILE, _SIZE),
)
