"""Outlets: the sockets of a box's egress, created by process 1 in the box's network namespace before the job begins.

Outlets are listening sockets on which the engine, outside the box, accepts connections: a socket belongs to the
namespace in which it was created, even if a process outside holds it.

In the box, every address is local (the `local` route that `ip route add local default dev lo` would set). An outlet can
therefore listen at any address. A connection to an address without an outlet is refused at once and can be logged,
instead of failing for lack of a route. Nothing leaves the namespace: its only device is `lo`. Standard library only.
"""

import ctypes
import os
import socket
import struct
from pathlib import Path

from sandbox import worker
from sandbox.linux import syscalls
from sandbox.namespace import rootfs
from sandbox.wire import paths

# Where distributions keep the bundle of their certificate authorities: Debian and Alpine, Fedora, openSUSE.
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem")
_BACKLOG = 128
_IP_FREEBIND, _IPV6_FREEBIND = 15, 78  # linux/in.h, linux/in6.h: bind to an address before it is assigned
_SO_ATTACH_FILTER = 26
_PACKET_QUEUE = 64 << 10  # bytes; the kernel drops packets beyond it, so a flood takes no more memory
_LOOPBACK_INDEX = 1  # `lo` is the first device of every network namespace

# Numbers of rtnetlink: linux/rtnetlink.h, linux/netlink.h.
_RTM_NEWROUTE, _NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_CREATE = 24, 0x1, 0x4, 0x400
_RT_TABLE_LOCAL, _RTPROT_BOOT, _RT_SCOPE_HOST, _RTN_LOCAL, _RTA_OIF = 255, 3, 254, 2, 4

# Classic BPF: (code, value, jump if true, jump if false). Dropping a packet takes a compare and a return.
_LD, _LDB, _LDB_X, _LDX_MSH, _AND, _JEQ, _RET = 0x20, 0x30, 0x50, 0xB1, 0x54, 0x15, 0x06
_IPV6_HEADER = 0xFFF00000  # SKF_NET_OFF: an IPv6 raw socket gets its packets without the header
_SYN, _SYN_ACK, _KEEP = 0x02, 0x12, 80
_DROP = (_RET, 0, 0, 0)
_TO_OTHERS = {
    socket.AF_INET: (
        (_LD, 16, 0, 0),  # the destination
        (_AND, 0xFFFFFF00, 0, 0),
        (_JEQ, 0x7F000000, 0, 1),  # 127.0.0.0/24: the job's own servers; allowed names get addresses above this range
        _DROP,
    ),
    socket.AF_INET6: (
        (_LD, _IPV6_HEADER + 24, 0, 0),  # ::1 is three zero words and a one
        (_JEQ, 0, 0, 7),
        (_LD, _IPV6_HEADER + 28, 0, 0),
        (_JEQ, 0, 0, 5),
        (_LD, _IPV6_HEADER + 32, 0, 0),
        (_JEQ, 0, 0, 3),
        (_LD, _IPV6_HEADER + 36, 0, 0),
        (_JEQ, 1, 0, 1),
        _DROP,
    ),
}
_TCP_FLAGS = {
    socket.AF_INET: ((_LDX_MSH, 0, 0, 0), (_LDB_X, 13, 0, 0)),  # after an IP header of any length
    socket.AF_INET6: ((_LDB, 13, 0, 0),),
}
_THAT_OPEN = ((_AND, _SYN_ACK, 0, 0), (_JEQ, _SYN, 1, 0), _DROP)


def open_all(wanted: worker.Message, channel: socket.socket) -> None:
    """Create the sockets of the job's `egress` and send them to the engine.

    Args:
        wanted: The job's `egress`: `listen` is a list of [address, port], `hosts` is the text of /etc/hosts, and
            `authority` is a certificate as PEM, or "".
        channel: The socket that is connected to the engine.

    Raises:
        OSError: A socket or a route cannot be created.
    """
    families = [socket.AF_INET, socket.AF_INET6]
    _all_is_local(socket.AF_INET)
    try:
        _all_is_local(socket.AF_INET6)
    except OSError:  # a machine without IPv6, so there is no route anyway
        if any(":" in address for address, _ in wanted["listen"]):
            raise
        families.remove(socket.AF_INET6)
    ends = [_listen(address, port) for address, port in wanted["listen"]]
    ends += [_strays(family, protocol) for family in families for protocol in (socket.IPPROTO_TCP, socket.IPPROTO_UDP)]
    _show("/etc/hosts", wanted["hosts"].encode("ascii"))
    if wanted["authority"]:
        own = wanted["authority"].encode("ascii")
        _show(paths.AUTHORITY, own)
        _show(paths.AUTHORITIES, _system_authorities() + own)
    socket.send_fds(channel, [worker.pack({"kind": "outlets"})], [end.fileno() for end in ends])
    for end in ends:
        end.close()


def open_bridge(address: str, port: int, channel: socket.socket) -> None:
    """Create the socket of the job's bridge and send it to the engine. It needs no route, being on loopback.

    Raises:
        OSError: The socket cannot be created.
    """
    with _listen(address, port) as end:
        socket.send_fds(channel, [worker.pack({"kind": "outlets"})], [end.fileno()])


def _listen(address: str, port: int) -> socket.socket:
    six = ":" in address
    end = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_STREAM)
    if six:
        end.setsockopt(socket.IPPROTO_IPV6, _IPV6_FREEBIND, 1)
        end.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    else:
        end.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
    end.bind((address, port))
    end.listen(_BACKLOG)
    return end


def _all_is_local(family: int) -> None:
    route = struct.pack(
        "=BBBBBBBBI", family, 0, 0, 0, _RT_TABLE_LOCAL, _RTPROT_BOOT, _RT_SCOPE_HOST, _RTN_LOCAL, 0
    ) + struct.pack("=HHI", 8, _RTA_OIF, _LOOPBACK_INDEX)
    flags = _NLM_F_REQUEST | _NLM_F_ACK | _NLM_F_CREATE
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as netlink:
        netlink.send(struct.pack("=IHHII", 16 + len(route), _RTM_NEWROUTE, flags, 1, 0) + route)
        (problem,) = struct.unpack_from("=i", netlink.recv(4096), 16)
    if problem:
        raise OSError(-problem, f"cannot add the box's local route: {os.strerror(-problem)}")


def _strays(family: socket.AddressFamily, protocol: int) -> socket.socket:
    """Return a raw socket that gets a copy of each packet to an address other than loopback; for TCP, only of each SYN.

    This is not a packet socket, because closing a packet socket takes an RCU grace period of the kernel, 10 to 20 ms.
    """
    program = [*_TO_OTHERS[family]]
    if protocol == socket.IPPROTO_TCP:
        program += [*_TCP_FLAGS[family], *_THAT_OPEN]
    program.append((_RET, _KEEP, 0, 0))
    code = b"".join(struct.pack("=HBBI", op, yes, no, value) for op, value, yes, no in program)
    text = ctypes.create_string_buffer(code, len(code))
    end = socket.socket(family, socket.SOCK_RAW, protocol)
    end.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(text)))
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _PACKET_QUEUE)
    if family == socket.AF_INET6:
        end.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    return end


def _show(path: str, data: bytes) -> None:
    """Mount a file with this content, read-only, at a path that exists."""
    source = Path(rootfs.BOX, os.path.basename(path))
    source.write_bytes(data)
    source.chmod(0o444)
    syscalls.mount(str(source), path, "", syscalls.MS_BIND)
    quiet = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_RDONLY
    syscalls.mount("", path, "", syscalls.MS_REMOUNT | syscalls.MS_BIND | quiet)


def _system_authorities() -> bytes:
    for path in _BUNDLES:
        try:
            return Path(path).read_bytes() + b"\n"
        except OSError:
            continue
    return b""
