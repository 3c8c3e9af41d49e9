"""Attempts to harm a neighbour (a box that runs at the same time): to reach its secrets, sockets, processes or resources."""

from dataclasses import replace

from sandbox.contract import End, Language
from sandbox.self_check.attempts.attempt import FILTERED, LIMITS, Attempt, AttemptFamily

# The code of the other box. It keeps a secret in every place where a job may have one, listens on TCP and Unix sockets,
# and regularly prints "tick". It prints "touched" if anybody connects or a signal arrives.
NEIGHBOUR = """
import os, selectors, signal, socket, sys, time
secret = os.environ['SECRET']
for place in ('/tmp', '/work', '/dev/shm'):
    open(place + '/neighbour', 'w').write(secret)
    os.chmod(place + '/neighbour', 0o666)
for number in (1, 2, 10, 12, 15):
    signal.signal(number, lambda *_: print('touched', flush=True))
poll = selectors.DefaultSelector()
for family, address in ((socket.AF_INET, ('127.0.0.1', 47111)), (socket.AF_UNIX, '\\0neighbour'),
                        (socket.AF_UNIX, '/tmp/neighbour.sock')):
    server = socket.socket(family)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(address); server.listen(); poll.register(server, selectors.EVENT_READ)
while True:
    print('tick', flush=True)
    for key, _ in poll.select(0.02):
        key.fileobj.accept()[0].sendall(secret.encode())
        print('touched', flush=True)
"""

_OWN_PIDS = "every box has a pid namespace of its own"
_OWN_FILES = "every box has a tmpfs of its own"
_OWN_NET = "every box has a network namespace of its own"
_BRIEF = replace(LIMITS, cpu_s=1)
_OWN_SHARE = "every box has limits of its own, and can use up only what they allow"

_ROWS = (
    ("read a neighbour's environment", """
begins = '@BEGINS@'[::-1].encode()
for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline'):
    try:
        if begins in open(path, 'rb').read(): worked(path)
    except OSError: pass
""", _OWN_PIDS),
    ("read a neighbour's memory", """
begins = '@BEGINS@'[::-1].encode()
for pid in (p for p in os.listdir('/proc') if p.isdigit() and p != str(os.getpid())):
    try:
        with open(f'/proc/{pid}/mem', 'rb') as memory:
            for line in open(f'/proc/{pid}/maps'):
                low, high = (int(n, 16) for n in line.split()[0].split('-'))
                if high - low > 64 << 20: continue
                memory.seek(low)
                if begins in memory.read(high - low): worked(line)
    except (OSError, ValueError, OverflowError): pass
""", _OWN_PIDS),
    ("read a neighbour's files", """
for place in ('/tmp', '/work', '/dev/shm', '/box/tmp', '/box/work', '/box/shm'):
    try: print(open(place + '/neighbour').read())
    except OSError: pass
""", _OWN_FILES),
    ("read a neighbour's files through its processes", """
for path in glob.glob('/proc/[0-9]*/root/tmp/neighbour') + glob.glob('/proc/[0-9]*/cwd/neighbour'):
    print(open(path).read())
""", _OWN_PIDS),
    ("connect to a neighbour's server", "print(socket.create_connection(('127.0.0.1', 47111), 2).recv(100))", _OWN_NET),
    ("connect to a neighbour's server through its abstract socket", """
s = socket.socket(socket.AF_UNIX); s.connect('\\0neighbour'); print(s.recv(100))
""", _OWN_NET),
    ("connect to a neighbour's server through its socket file", """
s = socket.socket(socket.AF_UNIX); s.connect('/tmp/neighbour.sock'); print(s.recv(100))
""", _OWN_FILES),
    ("find a neighbour's server in the network", """
for port in (47111, 80, 22):
    for address in ('127.0.0.1', '127.0.1.1', '127.255.255.254', '::1'):
        try: print(socket.create_connection((address, port), 0.2).recv(100))
        except OSError: pass
""", _OWN_NET),
    ("send a signal to every pid", """
for pid in range(2, 40000):
    if pid != os.getpid():
        try: os.kill(pid, 10)
        except OSError: pass
""", _OWN_PIDS),
    ("kill every process group", """
for group in range(2, 5000):
    if group != os.getpgrp():
        try: os.killpg(group, 9)
        except OSError: pass
""", _OWN_PIDS),
    ("lower the priority of every process of the user", """
for who in (os.PRIO_USER, os.PRIO_PGRP):
    try: os.setpriority(who, 0, 19)
    except OSError: pass
if os.path.exists('/proc/47111'): worked()
""", "setpriority reaches only processes of the box's own pid namespace"),
    ("share a message queue or memory with a neighbour", """
for number in (29, 64, 68):
    try: call(number, 4711, 1, 0o1666)
    except OSError: pass
for line in open('/proc/sysvipc/shm').read().splitlines()[1:]:
    if line.split()[0] != '4711': worked(line)
""", "every box has an ipc namespace of its own"),
    ("take a neighbour's lock", """
f = os.open(sys.executable, os.O_RDONLY)
fcntl.flock(f, fcntl.LOCK_SH)
""", "locks on the files that all boxes see are advisory, and no job waits for such a lock"),
)  # fmt: skip

_SHARE = (
    # The box ends at whichever of its limits the processes reach first; where one control group holds all of them, this may be memory.
    ("fork until the neighbour cannot fork", "while True: os.fork()", (End.PROCESSES, End.CPU, End.MEMORY)),
    ("open files until the neighbour cannot open any", "x = []\nwhile True: x.append(open('/dev/null'))", (End.FILES,)),
    ("fill the disk until the neighbour cannot write", "open('f', 'wb').write(bytes(60 << 20))", (End.DISK,)),
    ("use CPU time until the neighbour gets none", "os.fork(); os.fork(); os.fork()\nwhile True: pass", (End.CPU,)),
    ("hold memory until the neighbour cannot allocate any", "x = []\nwhile True: x.append(bytearray(8 << 20))", (End.MEMORY, End.CPU)),
    ("print until the neighbour cannot print", "while True: os.write(1, b'x' * 65536)", (End.OUTPUT,)),
)  # fmt: skip

ATTEMPTS = (
    *(
        Attempt(AttemptFamily.NEIGHBOURS, attempt, Language.PYTHON, code, why, beside=True, only=FILTERED)
        for attempt, code, why in _ROWS
    ),
    *(
        Attempt(
            AttemptFamily.NEIGHBOURS,
            attempt,
            Language.PYTHON,
            code,
            _OWN_SHARE,
            ends=ends,
            limits=_BRIEF,
            beside=True,
            only=FILTERED,
        )
        for attempt, code, ends in _SHARE
    ),
)
