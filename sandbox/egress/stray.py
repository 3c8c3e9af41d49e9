"""What a box tried to reach past its outlets: nothing listens there, but the attempt is noted.

Inside a box with egress every address is a local one, so such packets are answered with a refusal at once, and raw
sockets get a copy of them. Those sockets are as `sandbox.namespace.outlets` makes them: one per IP version for TCP and
for UDP, which let through what opens a connection, or any datagram, to anything but 127.0.0.0/24 and ::1. Of IPv4 the
IP header comes with the packet; of IPv6 only its destination does, beside it.
"""

import ipaddress
import socket
import struct
from collections.abc import Mapping

from sandbox.contract import Connection, Destination

_V4_HEADER, _PACKET_INFO = 20, 16  # bytes: the least a header has; the address at the start of in6_pktinfo
NOT_LISTED = "not on the job's list of destinations"
_BARE = f"a bare address that is {NOT_LISTED}"


def read(packets: socket.socket, most: int) -> list[tuple[Destination, int]]:
    """Up to `most` attempts that wait in a non-blocking raw socket, as (where to, IP protocol)."""
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
    """The journal's line for an attempt. names: the hosts whose addresses in the box are not their own."""
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
