"""Attempts to escape through inherited file descriptors, or to misuse them."""

from sandbox.contract import Language
from sandbox.self_check.attempts.attempt import FILTERED, Attempt, AttemptFamily

_FEW = "the worker closes everything but its streams and the channel of its result before it becomes the job"

_ROWS = (
    ("use a socket it inherited", """
import stat
for n in range(256):
    try: mode = os.fstat(n).st_mode
    except OSError: continue
    if stat.S_ISSOCK(mode) and n != 3: worked(n)
""", _FEW, False),
    ("use the channel of its result as a socket", """
channel = socket.socket(fileno=os.dup(3))
if struct.unpack('3i', channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0] != 1: worked('another peer')
for path in ('/run/docker.sock', '\\0knackbox', '/tmp/x'):
    refused(lambda: channel.connect(path))
    refused(lambda: channel.sendto(b'x', path))
refused(channel.listen)
refused(lambda: os.open('/proc/self/fd/3', os.O_RDWR))
refused(lambda: call(438, os.pidfd_open(1), 1, 0))
""", "it is connected to process 1 and cannot be connected to anything else", False),
    ("use a folder it inherited to leave the root", """
import stat
for n in range(256):
    try:
        if not stat.S_ISDIR(os.fstat(n).st_mode): continue
        print(open(os.open('../' * 40 + '@CANARY@'[1:], os.O_RDONLY, dir_fd=n)).read())
    except OSError: pass
""", _FEW, True),
    ("use a descriptor above the usual ones", """
for n in range(3, 4096):
    try: os.fstat(n)
    except OSError: continue
    target = os.readlink(f'/proc/self/fd/{n}')
    if n == 3 and target.startswith('socket:'): continue
    if not target.startswith(('pipe:', '/work', '/tmp', '/proc')): worked((n, target))
""", _FEW, False),
    ("use a ruleset, a pidfd or a namespace it inherited", """
for n in os.listdir('/proc/self/fd'):
    try: target = os.readlink('/proc/self/fd/' + n)
    except OSError: continue
    if n == '3' and target.startswith('socket:'): continue
    if target.startswith(('anon_inode', 'socket', 'mnt:', 'net:', 'user:', 'pid:')): worked(target)
""", _FEW, False),
    ("read what was written to its standard output",
     "f = os.open('/proc/self/fd/1', os.O_RDONLY | os.O_NONBLOCK)\nprint(os.read(f, 100))",
     "the pipe is the box's own: it holds what this job wrote", True),
    ("write to its standard input's source", """
refused(lambda: os.write(0, b'x'))
""", "standard input is open for reading only", False),
    ("find the engine's end of a pipe through /proc", """
own = {os.readlink(f'/proc/self/fd/{n}') for n in (1, 2)}
for path in glob.glob('/proc/[0-9]*/fd/*'):
    if path.split('/')[2] == str(os.getpid()): continue
    try: target = os.readlink(path)
    except OSError: continue
    if target in own: worked(path)
""", "process 1 may not be inspected, and the engine is in no pid namespace the box sees", False),
    ("keep its streams open after its end", """
if os.fork() == 0:
    os.setsid(); time.sleep(30)
    print('@MARK@', flush=True)
""", "everything in the box is killed once the job has answered", False),
    ("fill process 1 with descriptors", """
channel = socket.socket(fileno=os.dup(3))
for _ in range(3000):
    try: socket.send_fds(channel, [b'x'], [0, 1, 2])
    except OSError: time.sleep(0.001)  # too many descriptors in flight
os._exit(0)
""", "process 1 leaves no room for descriptors in what it reads, and the kernel closes them", False),
    ("find the worker's descriptors in a program that it starts",
     "out = subprocess.run(['/bin/sh', '-c', 'ls -l /proc/self/fd'], capture_output=True, close_fds=False).stdout\n"
     "if b'socket' in out or b'anon_inode' in out: worked(out)",
     "the worker's own descriptors are closed on exec", False),
)  # fmt: skip

ATTEMPTS = tuple(
    Attempt(
        AttemptFamily.DESCRIPTORS,
        attempt,
        Language.PYTHON,
        code,
        why,
        harmless=looks,
        # A container's engine may give the worker a socket. In that case only attempts to use the socket apply.
        only=frozenset() if looks else FILTERED,
    )
    for attempt, code, why, looks in _ROWS
)
