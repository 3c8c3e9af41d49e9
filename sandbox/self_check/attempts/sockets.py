"""Attempts to reach the host or the network through all kinds of sockets."""

from sandbox.contract import Language
from sandbox.self_check.attempts.attempt import FILTERED, Attempt, AttemptFamily

_OWN_LOOPBACK = "the box has its own network namespace, with its own loopback interface"
_NO_ROUTE = "the box's network namespace has only the loopback interface, so there is no route"
_FAMILIES = "seccomp allows only Unix, IPv4 and IPv6 sockets"
_RAW = "raw sockets need CAP_NET_RAW, and seccomp refuses the protocol"
_PATHS = "the host's folders, and with them its socket files, are not in the box's root"

_HARMLESS = (
    ("connect to a server on the host's loopback",
     "socket.create_connection(('127.0.0.1', @TCP_PORT@), 2)\nworked()", _OWN_LOOPBACK),
    ("connect to a server on the host's loopback over IPv6", "socket.create_connection(('::1', @TCP6_PORT@), 2)\nworked()", _OWN_LOOPBACK),
    ("connect to a server on the host's loopback through the address 0.0.0.0", "socket.create_connection(('0.0.0.0', @TCP_PORT@), 2)\nworked()", _OWN_LOOPBACK),
    ("connect to a server on the host's loopback through an IPv4-mapped IPv6 address",
     "socket.create_connection(('::ffff:127.0.0.1', @TCP_PORT@), 2)\nworked()", _OWN_LOOPBACK),
    ("send a datagram to the host's loopback",
     "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', @UDP_PORT@))", _OWN_LOOPBACK),
    ("open a connection with TCP Fast Open", """
s = socket.socket(); s.sendto(b'x', 0x20000000, ('127.0.0.1', @TCP_PORT@))  # MSG_FASTOPEN
worked()
""", _OWN_LOOPBACK),
    ("reach the Internet", "socket.create_connection(('192.0.2.1', 80), 2)\nworked()", _NO_ROUTE),
    ("send a datagram to the Internet",
     "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))\nworked()", _NO_ROUTE),
    ("reach the metadata service of a cloud",
     "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('169.254.169.254', 80))\nworked()", _NO_ROUTE),
    ("reach the local network", """
for address in ('10.0.0.1', '172.17.0.1', '192.168.0.1', '192.168.1.1', '100.64.0.1'):
    refused(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect((address, 53)))
""", _NO_ROUTE),
    ("reach link-local neighbours over IPv6",
     "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ('ff02::1', 5353, 0, 2))\nworked()", _NO_ROUTE),
    ("send a broadcast", """
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
s.sendto(b'x', ('255.255.255.255', 67))
worked()
""", _NO_ROUTE),
    ("resolve a domain name", "socket.getaddrinfo('example.com', 80)\nworked()", "no name server is configured or reachable"),
    ("see a network interface of the host", """
names = [name for _, name in socket.if_nameindex() if name != 'lo'] if hasattr(socket, 'if_nameindex') else []
up = [line for line in open('/proc/net/dev').read().splitlines()[2:] if int(line.split(':')[1].split()[0])]
if any(line.strip().split(':')[0] != 'lo' for line in up): worked(up)
""", _NO_ROUTE),
    ("connect to an abstract socket of the host",
     "socket.socket(socket.AF_UNIX).connect('\\0@ABSTRACT@')\nworked()",
     "the names of abstract sockets belong to a network namespace, and Landlock also restricts them"),
    ("send a datagram to an abstract socket of the host", "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).connect('\\0@ABSTRACT@')\nworked()",
     "the names of abstract sockets belong to a network namespace"),
    ("connect to a socket file of the host", "socket.socket(socket.AF_UNIX).connect('@ROOT@/server')\nworked()", _PATHS),
    ("connect to the sockets of common services", """
for path in ('/var/run/docker.sock', '/run/docker.sock', '/run/containerd/containerd.sock', '/run/dbus/system_bus_socket',
             '/run/systemd/private', '/run/systemd/journal/socket', '/dev/log', '/run/podman/podman.sock',
             '/tmp/.X11-unix/X0', '/run/user/1000/bus', '/run/snapd.socket'):
    refused(lambda: socket.socket(socket.AF_UNIX).connect(path))
""", _PATHS),
    ("connect to the X server's abstract socket", "socket.socket(socket.AF_UNIX).connect('\\0/tmp/.X11-unix/X0')\nworked()",
     "the names of abstract sockets belong to a network namespace"),
)  # fmt: skip

# (what, family, type, protocol, whether every backend refuses it)
_KINDS = (
    ("a packet socket", 17, 3, 0x0300, True),
    ("a raw IPv4 socket", 2, 3, 255, True),
    ("a raw ICMP socket", 2, 3, 1, True),
    ("a raw IPv6 socket", 10, 3, 58, True),
    ("a ping socket", 2, 2, 1, False),
    ("a routing netlink socket", 16, 3, 0, False),
    ("a netfilter netlink socket", 16, 3, 12, False),
    ("a kernel crypto socket", 38, 5, 0, False),
    ("a socket to the hypervisor", 40, 1, 0, False),
    ("a Bluetooth socket", 31, 3, 1, False),
    ("a CAN socket", 29, 3, 1, False),
    ("an XDP socket", 44, 3, 0, True),
    ("a TIPC socket", 30, 5, 0, False),
    ("an RDS socket", 21, 5, 0, False),
    ("an SCTP socket", 2, 1, 132, False),
    ("an MPTCP socket", 2, 1, 262, False),
    ("a UDP-Lite socket", 2, 2, 136, False),
    ("an SMC socket", 43, 1, 0, False),
    ("a PPP socket", 24, 1, 0, False),
    ("a PF_KEY socket", 15, 3, 2, True),
    ("an IUCV socket", 32, 1, 0, False),
    ("an NFC socket", 39, 5, 0, False),
    ("a phonet socket", 35, 2, 0, False),
    ("a QIPCRTR socket", 42, 2, 0, False),
)

_MISUSES = (
    ("bind a low port", "socket.socket().bind(('127.0.0.1', 80))\nworked()",
     "binding a low port needs CAP_NET_BIND_SERVICE", False),
    ("add a network interface", "fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x89a0, b'br0'.ljust(32))\n"
     "worked()", "changing the network needs CAP_NET_ADMIN", True),
    ("give the loopback interface another address", """
address = b'lo'.ljust(16, b'\\0') + struct.pack('HH4B8x', 2, 0, 10, 9, 8, 7)
fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8916, address)
worked()
""", "changing the network needs CAP_NET_ADMIN", True),
    ("set a firewall rule", "socket.socket().setsockopt(0, 64, bytes(96))\nworked()", "setting a firewall rule needs CAP_NET_ADMIN", True),
    ("raise the size of a socket's buffer past the limit",
     "socket.socket().setsockopt(socket.SOL_SOCKET, 33, 1 << 28)\nworked()", "SO_RCVBUFFORCE needs CAP_NET_ADMIN", True),
    ("send another process's credentials", """
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
b.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
a.sendmsg([b'x'], [(socket.SOL_SOCKET, 2, struct.pack('3i', 1, 0, 0))])
worked()
""", "sending another process's credentials needs CAP_SYS_ADMIN and CAP_SETUID", True),
    ("make a pair of packet sockets", "reach(53, 17, 3, 0, ctypes.create_string_buffer(8))", _FAMILIES, True),
)  # fmt: skip

ATTEMPTS = (
    *(
        Attempt(AttemptFamily.SOCKETS, attempt, Language.PYTHON, code, why, harmless=True)
        for attempt, code, why in _HARMLESS
    ),
    *(
        Attempt(
            AttemptFamily.SOCKETS,
            f"open {what}",
            Language.PYTHON,
            f"if libc.socket({family}, {kind}, {protocol}) >= 0: worked()",
            _RAW if kind == 3 and family in (2, 10) else _FAMILIES,  # noqa: PLR2004  (SOCK_RAW of AF_INET, AF_INET6)
            only=frozenset() if everywhere else FILTERED,
        )
        for what, family, kind, protocol, everywhere in _KINDS
    ),
    *(
        Attempt(
            AttemptFamily.SOCKETS, attempt, Language.PYTHON, code, why, only=frozenset() if everywhere else FILTERED
        )
        for attempt, code, why, everywhere in _MISUSES
    ),
)
