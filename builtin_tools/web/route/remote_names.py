"""Checks the names of hosts that a proxy resolves. Their addresses cannot be checked here.

Resolving such a name here would tell the local network what is requested. What remains is to refuse addresses that are
not public, names that are private by their form, and every other spelling of an address. A public name may still
resolve to an address that is private in the network of the proxy. The proxy protects that network (Tor exits refuse
private addresses), and the network of this machine is not involved.
"""

import ipaddress
import re

from builtin_tools.download_rules import Address, is_public
from builtin_tools.http_hop import permanent
from builtin_tools.web.route.routes import Route

# Names that are never public: RFC 6761, RFC 6762, RFC 7686, RFC 8375, RFC 9476, ICANN's reservation of `internal`, and
# the names that routers and companies use for private networks.
_PRIVATE = frozenset(
    {"alt", "corp", "home", "internal", "intranet", "invalid", "lan", "local", "localdomain", "localhost", "private"}
    | {"home.arpa", "in-addr.arpa", "ip6.arpa", "test"}
)
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_MOST = 253  # characters of a name (RFC 1035)


def check_remote_name(host: str, route: Route, allow: tuple[str, ...]) -> None:
    """Check a host whose name the route's proxy will resolve.

    Args:
        host: As in the URL, in ASCII: a name or an address.
        route: The route to it. A name that a person gave a proxy of its own may be private.
        allow: Names and addresses that are allowed although they are not public.

    Raises:
        ToolFailure: The host is not public.
    """
    host = host.lower().rstrip(".")
    if host in allow or (route.named and not route.is_tor):
        return
    address = _address(host)
    reason = _not_public(address) if address is not None else _not_public_name(host, route)
    if reason:
        raise permanent(
            f"{host[:80]} {reason}, so nothing was requested (route: {route.name}). A person can allow it with "
            f'allow = ["{host[:80]}"] in [packs.web] of the configuration.',
            "address_refused",
        )


def check_onion(host: str, route: Route) -> None:
    """Check that a name of Tor's own network is not sent to a resolver (RFC 7686).

    Raises:
        ToolFailure: It would be.
    """
    if host.lower().rstrip(".").endswith(".onion") and not route.is_tor:
        raise permanent(
            f"{host[:80]} can only be reached through Tor, but its route is {route.name}. A person can set "
            'route = "tor" in [packs.web] of the configuration.',
            "address_refused",
        )


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None


def _not_public(address: Address) -> str:
    return "" if is_public(address) else "is not a public address"


def _not_public_name(host: str, route: Route) -> str:
    labels = host.split(".")
    if len(host) > _MOST or not all(_LABEL.fullmatch(label) for label in labels):
        return "is not a host name"
    # Resolvers accept further spellings of addresses, such as 127.1 and 0x7f000001. No top-level domain begins so.
    if labels[-1][0].isdigit():
        return "is not a host name, but looks like an address"
    if len(labels) == 1:
        return "has no domain, so it is not a public name"
    if labels[-1] == "onion" and route.is_tor:
        return ""
    if any(".".join(labels[start:]) in _PRIVATE for start in range(len(labels))):
        return "is not a public name"
    return ""
