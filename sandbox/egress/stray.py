"""Records a box's attempts to connect to anything but its outlets (the sockets of its `EgressPlan`).

Inside a box with egress every address is local, so the kernel refuses such packets at once, and raw sockets get a copy
of them. `sandbox.namespace.outlets` creates the raw sockets: one per IP version for TCP and one for UDP. Their filters
pass packets that open a connection, and all datagrams, except those sent to 127.0.0.0/24 and ::1. An IPv4 packet comes
with its IP header. For IPv6 only the destination is given, in the ancillary data.
"""

import ipaddress
import socket
import struct
from collections.abc import Mapping

from sandbox.contract import Connection, Destination

_V4_HEADER, _PACKET_INFO = 20, 16  # bytes: the shortest IPv4 header; the address at the start of in6_pktinfo
NOT_LISTED = "not on the job's list of destinations"
_BARE = f"a bare address that is {NOT_LISTED}"


def read(packets: socket.socket, most: int) -> list[tuple[Destination, int]]:
    """Return up to `most` attempts from a non-blocking raw socket, as (destination, IP protocol)."""
    found = []
    for _ in range(most):
        try:
            data, besides, _, _ = packets.recvmsg(256, 256)
        except BlockingIOError:
            break
        attempt = _to(data, besides)
        if attempt is not None:
            found.append((attempt, packets.proto))
    return found


def connection(destination: Destination, protocol: int, names: Mapping[str, str]) -> Connection:
    """Return the journal's entry for an attempt. `names` maps addresses in the box to host names."""
    host = names.get(destination.host)
    reason = NOT_LISTED if host else _BARE
    udp = "; UDP never leaves a box" if protocol == socket.IPPROTO_UDP else ""
    shown = Destination(host, destination.port) if host else destination
    return Connection(str(shown), allowed=False, reason=reason + udp)


def _to(data: bytes, besides: list[tuple[int, int, bytes]]) -> Destination | None:
    info = next((value for *_, value in besides if len(value) >= _PACKET_INFO), None)
    if info is not None:
        address, start = info[:_PACKET_INFO], 0
    elif len(data) >= _V4_HEADER:
        address, start = data[16:20], (data[0] & 15) * 4
    else:
        return None
    if len(data) < start + 4:
        return None
    (port,) = struct.unpack_from("!H", data, start + 2)
    return Destination(ipaddress.ip_address(address).compressed, port)
