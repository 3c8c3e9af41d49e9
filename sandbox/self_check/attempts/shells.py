"""Attempts to escape from Bash and Node, because the isolation must not depend on the language."""

from sandbox.contract import Language, Limits
from sandbox.self_check.attempts.attempt import FILTERED, LIMITS, Attempt, AttemptFamily

_ROOT = "every program in the box sees only the box's root folder"
_CONFINED = "the confinement is in place before the interpreter starts, and survives exec"
_NO_ROUTE = "the box's network namespace has only the loopback interface"

_BASH = (
    ("read a file of the host", "cat @CANARY@ 2>/dev/null", _ROOT),
    ("read the environment of every process", "env; grep -l kbx-canary /proc/[0-9]*/environ 2>/dev/null | grep -q . && worked", _ROOT),
    ("read the command line of every process", "for c in /proc/[0-9]*/cmdline; do case $(tr '\\0' ' ' <$c 2>/dev/null) in *sys.stdin.read*kbx-canary*) "
     "worked;; esac; done", _ROOT),
    ("list the host's processes", "[ $(ls -d /proc/[0-9]* | wc -l) -gt 12 ] && worked; kill -0 @PID@ 2>/dev/null && "
     "grep -q canary /proc/@PID@/cmdline && worked", _ROOT),
    ("find the self-check's folder", "ls -d /tmp/knackbox-stage-* 2>/dev/null && worked; ls @ROOT@ 2>/dev/null && worked", _ROOT),
    ("find the self-check's folder by searching the whole file system", "find / -xdev -name 'knackbox-stage-*' 2>/dev/null | grep -q . && worked", _ROOT),
    ("connect to a server of the host through Bash's /dev/tcp", "(exec 7<>/dev/tcp/127.0.0.1/@TCP_PORT@) 2>/dev/null && worked", _NO_ROUTE),
    ("send a datagram through Bash's /dev/udp", "(echo x >/dev/udp/192.0.2.1/53) 2>/dev/null && worked", _NO_ROUTE),
    ("become root", "(su -c 'id -u' </dev/null; sudo -n id -u; id -u) 2>/dev/null | grep -qx 0 && worked", _CONFINED),
    ("create namespaces", "unshare -Ur true 2>/dev/null && worked; unshare -n true 2>/dev/null && worked", _CONFINED),
    ("mount a file system", "mount -t tmpfs x /tmp 2>/dev/null && worked; mount -o remount,rw / 2>/dev/null && worked", _CONFINED),
    ("leave the box's root folder", "chroot /proc/1/root true 2>/dev/null && worked; cat /proc/1/root@CANARY@ 2>/dev/null", _ROOT),
    ("write to the system's folders", "(: > /usr/planted-@MARK@) 2>/dev/null && worked; (: > /etc/planted-@MARK@) 2>/dev/null "
     '&& worked; touch -d @1 /bin/sh 2>/dev/null; [ "$(stat -Lc %Y /bin/sh)" = 1 ] && worked', _ROOT),
    ("make a device", "mknod /tmp/d c 1 1 2>/dev/null && worked; ls /dev/[sv]d? 2>/dev/null && worked", _CONFINED),
    ("make the host run a program later", "crontab -l 2>/dev/null && worked; (echo x | at now) 2>/dev/null && worked; "
     "systemctl status 2>/dev/null && worked", _ROOT),
    ("find the socket of a container engine", "for s in /var/run/docker.sock /run/podman/podman.sock; do [ -S $s ] && worked; "
     "done", _ROOT),
    ("have a capability", "grep -E '^Cap(Eff|Prm|Bnd)' /proc/self/status | grep -qv 0000000000000000 && worked",
     _CONFINED),
    ("run without a seccomp filter", "grep -q '^Seccomp:.2' /proc/self/status || worked; grep -q '^NoNewPrivs:.1' "
     "/proc/self/status || worked", _CONFINED),
    ("raise the job's limits", "(ulimit -n 100000) 2>/dev/null && worked; (ulimit -u unlimited) 2>/dev/null && worked",
     _CONFINED),
    ("weaken the kernel's settings", "(echo 0 > /proc/sys/kernel/randomize_va_space) 2>/dev/null && worked; "
     "sysctl -w kernel.core_pattern=x 2>/dev/null && worked", _ROOT),
)  # fmt: skip

_NODE = (
    ("read a file of the host", "try { console.log(fs.readFileSync('@CANARY@', 'utf8')) } catch (e) {}", _ROOT),
    ("read the environment of every process", "console.log(process.env);\nfor (const p of fs.readdirSync('/proc')) "
     "try { if (fs.readFileSync(`/proc/${p}/environ`, 'utf8').includes('kbx-canary')) worked() } catch (e) {}", _ROOT),
    ("find the self-check's folder", "refused(() => fs.readdirSync('@ROOT@'))", _ROOT),
    ("connect to the host", "const s = net.connect(@TCP_PORT@, '127.0.0.1', () => { worked(); s.end() });"
     "s.on('error', () => {})", _NO_ROUTE),
    ("fetch from the Internet", "fetch('http://192.0.2.1/', {signal: AbortSignal.timeout(2000)}).then(() => worked(), "
     "() => {})", _NO_ROUTE),
    ("connect to a socket file of the host", "const s = net.connect('@ROOT@/server', () => { worked(); s.end() });"
     "s.on('error', () => {})", _ROOT),
    ("start a program that has more rights", "const r = child.spawnSync('sh', ['-c', "
     "'unshare -Ur true && echo yes; cat @CANARY@']); console.log(String(r.stdout)); "
     "if (String(r.stdout).includes('yes')) worked()", _CONFINED),
    ("become root", "refused(() => process.setuid(0)); refused(() => process.setgid(0))", _CONFINED),
    ("send a signal to a host process", "refused(() => process.kill(@PID@, 'SIGSTOP'))", _ROOT),
    ("write to the system's folders", "refused(() => fs.writeFileSync('/usr/planted-@MARK@', '')); "
     "refused(() => fs.writeFileSync(process.execPath, '', {flag: 'a'}))", _ROOT),
    ("have a capability or no seccomp filter", "const s = fs.readFileSync('/proc/self/status', 'utf8');\n"
     "if (!/CapEff:\\t0+\\n/.test(s) || !/NoNewPrivs:\\t1/.test(s) || !/Seccomp:\\t2/.test(s)) worked()", _CONFINED),
    ("read a file of the host in a worker thread", "const { Worker } = require('worker_threads');\nnew Worker(\"try { console.log(require("
     "'fs').readFileSync('@CANARY@', 'utf8')) } catch (e) {}\", {eval: true}).on('error', () => {})", _CONFINED),
    ("load a native library of the host", "refused(() => process.dlopen({exports: {}}, '@CANARY@'))", _ROOT),
)  # fmt: skip

_HARMFUL = frozenset(
    {
        "write to the system's folders",
        "mount a file system",
        "make a device",
        "weaken the kernel's settings",
        "send a signal to a host process",
    }
)
# With the default memory limit, because a second V8 instance, in a thread, reserves as much as the first.
_NODE_LIMITS = Limits(wall_s=10, cpu_s=5)
_OWN_FILTER = frozenset({"have a capability"})
_OWN_PROC = frozenset(
    {"run without a seccomp filter", "read the environment of every process"}
)  # they also read other processes


def _of(language: Language, rows: tuple[tuple[str, str, str], ...]) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(
            AttemptFamily.SHELLS,
            f"{attempt} ({language})",
            language,
            code,
            why,
            harmless=attempt not in _HARMFUL,
            limits=_NODE_LIMITS if language is Language.NODE else LIMITS,
            only=FILTERED if attempt in _OWN_FILTER | _OWN_PROC else frozenset(),
        )
        for attempt, code, why in rows
    )


ATTEMPTS = (*_of(Language.BASH, _BASH), *_of(Language.NODE, _NODE))
