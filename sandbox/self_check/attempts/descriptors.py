"""Attempts to escape through inherited file descriptors, or to misuse them."""

from sandbox.contract import Language
from sandbox.self_check.attempts.attempt import FILTERED, Attempt, AttemptFamily

_FEW = "before the job runs, the worker closes all descriptors except the standard streams and its result channel"

_ROWS = (
    ("use an inherited socket", """
import stat
for n in range(256):
    try: mode = os.fstat(n).st_mode
    except OSError: continue
    if stat.S_ISSOCK(mode) and n != 3: worked(n)
""", _FEW, False),
    ("use the result channel as a socket", """
channel = socket.socket(fileno=os.dup(3))
if struct.unpack('3i', channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0] != 1: worked('another peer')
for path in ('/run/docker.sock', '\\0knackbox', '/tmp/x'):
    refused(lambda: channel.connect(path))
    refused(lambda: channel.sendto(b'x', path))
refused(channel.listen)
refused(lambda: os.open('/proc/self/fd/3', os.O_RDWR))
refused(lambda: call(438, os.pidfd_open(1), 1, 0))
""", "the channel is connected to process 1 and cannot be connected to anything else", False),
    ("list the host's network devices through the result channel", """
import fcntl
for index in range(1, 1000):
    try: name = fcntl.ioctl(3, 0x8910, struct.pack('16si20x', b'', index))[:16].rstrip(b'\\0')  # SIOCGIFNAME
    except OSError: continue
    if name != b'lo': worked(name)
""", "process 1 creates the channel in the box's network namespace, whose only device is lo", False),
    ("use an inherited descriptor of a folder to leave the root folder", """
import stat
for n in range(256):
    try:
        if not stat.S_ISDIR(os.fstat(n).st_mode): continue
        print(open(os.open('../' * 40 + '@CANARY@'[1:], os.O_RDONLY, dir_fd=n)).read())
    except OSError: pass
""", _FEW, True),
    ("use an inherited descriptor other than the standard streams", """
for n in range(3, 4096):
    try: os.fstat(n)
    except OSError: continue
    target = os.readlink(f'/proc/self/fd/{n}')
    if n == 3 and target.startswith('socket:'): continue
    if not target.startswith(('pipe:', '/work', '/tmp', '/proc')): worked((n, target))
""", _FEW, False),
    ("use an inherited Landlock ruleset, pidfd or namespace", """
for n in os.listdir('/proc/self/fd'):
    try: target = os.readlink('/proc/self/fd/' + n)
    except OSError: continue
    if n == '3' and target.startswith('socket:'): continue
    if target.startswith(('anon_inode', 'socket', 'mnt:', 'net:', 'user:', 'pid:')): worked(target)
""", _FEW, False),
    ("read what others have written to standard output",
     "f = os.open('/proc/self/fd/1', os.O_RDONLY | os.O_NONBLOCK)\nprint(os.read(f, 100))",
     "every box has its own pipe, which contains only what the job wrote", True),
    ("write to standard input", """
refused(lambda: os.write(0, b'x'))
""", "standard input is open for reading only", False),
    ("find the engine's end of a pipe through /proc", """
own = {os.readlink(f'/proc/self/fd/{n}') for n in (1, 2)}
for path in glob.glob('/proc/[0-9]*/fd/*'):
    if path.split('/')[2] == str(os.getpid()): continue
    try: target = os.readlink(path)
    except OSError: continue
    if target in own: worked(path)
""", "process 1 cannot be inspected, and the box cannot see the engine's pid namespace", False),
    ("keep the output streams open after the job has ended", """
if os.fork() == 0:
    os.setsid(); time.sleep(30)
    print('@MARK@', flush=True)
""", "everything in the box is killed once the job has answered", False),
    ("make process 1 run out of descriptors", """
channel = socket.socket(fileno=os.dup(3))
for _ in range(3000):
    try: socket.send_fds(channel, [b'x'], [0, 1, 2])
    except OSError: time.sleep(0.001)  # too many descriptors in flight
os._exit(0)
""", "process 1 does not accept descriptors, and the kernel closes those that are sent to it", False),
    ("find the worker's descriptors in a program that the job starts",
     "out = subprocess.run(['/bin/sh', '-c', 'ls -l /proc/self/fd'], capture_output=True, close_fds=False).stdout\n"
     "if b'socket' in out or b'anon_inode' in out: worked(out)",
     "the worker's own descriptors are closed when another program is started", False),
)  # fmt: skip

ATTEMPTS = tuple(
    Attempt(
        AttemptFamily.DESCRIPTORS,
        attempt,
        Language.PYTHON,
        code,
        why,
        harmless=looks,
        # In other backends, the worker may inherit more descriptors, such as a socket of a container engine. Only
        # attempts that read something through a descriptor apply there.
        only=frozenset() if looks else FILTERED,
    )
    for attempt, code, why, looks in _ROWS
)
