"""Defines what a download may connect to. Importing this module does not import `download`, which is slow."""

import ipaddress
from dataclasses import dataclass

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052: the last 32 bits are an IPv4 address


@dataclass(frozen=True, slots=True)
class DownloadRules:
    """The addresses that a download may connect to, and its size limit.

    Attributes:
        max_bytes: The size limit.
        allow: Host names, addresses or networks (``"10.1.0.0/16"``) that are allowed although they are not public.
        table: The table of the configuration that these rules come from, for messages.
        allow_setting: The name of `allow` in that table.
        size_setting: The name of `max_bytes` in that table.
    """

    max_bytes: int = 64 << 20
    allow: tuple[str, ...] = ()
    table: str = "packs.builtin"
    allow_setting: str = "download_allow"
    size_setting: str = "download_max_bytes"

    def allows(self, host: str, address: Address) -> bool:
        """Return whether a download may connect to a host that resolved to this address."""
        return is_public(address) or host in self.allow or any(address in network for network in self.networks())

    def networks(self) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
        found = []
        for entry in self.allow:
            try:
                found.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:  # the entry is a host name
                continue
        return found


def is_public(address: Address) -> bool:
    """Return whether an address is public. For an IPv6 address that embeds an IPv4 address, the latter is checked."""
    if isinstance(address, ipaddress.IPv6Address):
        embedded = address.ipv4_mapped or address.sixtofour
        if address in NAT64:
            embedded = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if embedded is not None:
            return is_public(embedded)
    return address.is_global and not address.is_multicast and not address.is_reserved
