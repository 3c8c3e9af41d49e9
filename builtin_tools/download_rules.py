"""What a download may reach and how large it may be. Apart from `download`, which takes longer to import."""

import ipaddress
from dataclasses import dataclass

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052: the last 32 bits are an IPv4 address


@dataclass(frozen=True, slots=True)
class DownloadRules:
    """What a download may reach and how large it may be.

    allow: host names, addresses or networks (``"10.1.0.0/16"``) that may be reached although they are not public.
    """

    max_bytes: int = 64 << 20
    allow: tuple[str, ...] = ()

    def allows(self, host: str, address: Address) -> bool:
        """Whether this host, which resolved to this address, may be reached."""
        return is_public(address) or host in self.allow or any(address in network for network in self.networks())

    def networks(self) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
        found = []
        for entry in self.allow:
            try:
                found.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:  # a host name
                continue
        return found


def is_public(address: Address) -> bool:
    """Whether an address is reachable by anyone, judged by the IPv4 address it carries where it carries one."""
    if isinstance(address, ipaddress.IPv6Address):
        carried = address.ipv4_mapped or address.sixtofour
        if address in NAT64:
            carried = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if carried is not None:
            return is_public(carried)
    return address.is_global and not address.is_multicast and not address.is_reserved
