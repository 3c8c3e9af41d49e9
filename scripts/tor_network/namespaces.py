"""The network namespaces of the test network, and the packet counters in that of the client.

    client ── 11.100.0.0/24 ── tor ── 11.200.0.0/24 ── web

All addresses are public by their form (11.0.0.0/8), because Tor and Knackbox refuse others. No packet leaves the
machine: the namespaces are connected only to each other, and `tor` does not forward.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

CLIENT, TOR, WEB = "client", "tor", "web"
GATE = "11.100.0.1"  # where the running Tor of the network listens for the client
CLIENT_ADDRESS = "11.100.0.2"
RESOLVER = "11.200.0.53"
WEB_GATEWAY = "11.200.0.1"
WEB_ADDRESSES = tuple(f"11.200.0.{last}" for last in range(100, 140))
SOCKS_PORT = 9050
OR_PORTS = (9001, 7000)
COUNTERS = ("socks", "loopback", "relays", "outside")
_COUNTING = f"""
table inet packets {{
    counter socks {{ }}
    counter loopback {{ }}
    counter relays {{ }}
    counter outside {{ }}
    chain output {{
        type filter hook output priority 0; policy accept;
        ip daddr {GATE} tcp dport {SOCKS_PORT} counter name socks accept
        oifname "lo" meta l4proto tcp counter name loopback accept
        ip daddr 11.1.0.0-11.50.255.255 tcp dport {{ {", ".join(map(str, OR_PORTS))} }} counter name relays accept
        counter name outside
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The namespaces of one network. Their names begin with `prefix`."""

    prefix: str

    def name(self, of: str) -> str:
        """Return the name for `ip netns`."""
        return f"{self.prefix}-{of}"

    def inside(self, of: str, *command: str) -> list[str]:
        """Return the command that runs another one in a namespace."""
        return ["ip", "netns", "exec", self.name(of), *command]

    def create(self, relays: tuple[str, ...]) -> None:
        """Create the namespaces, with the addresses of the relays in `tor`.

        Raises:
            subprocess.CalledProcessError: They cannot be created.
        """
        for of in (CLIENT, TOR, WEB):
            run("ip", "netns", "add", self.name(of))
            run(*self.inside(of, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"))
            run(*self.inside(of, "ip", "link", "set", "lo", "up"))
        self._connect(CLIENT, CLIENT_ADDRESS, GATE)
        self._connect(WEB, RESOLVER, WEB_GATEWAY)
        for address in WEB_ADDRESSES:
            run(*self.inside(WEB, "ip", "address", "add", f"{address}/24", "dev", "up0"))
        for address in relays:
            run(*self.inside(TOR, "ip", "address", "add", f"{address}/32", "dev", "lo"))
        run(*self.inside(CLIENT, "nft", "-f", "-"), stdin=_COUNTING)
        # A program that resolves a name itself asks this address, so its packets are counted.
        folder = Path("/etc/netns") / self.name(CLIENT)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "resolv.conf").write_text(f"nameserver {RESOLVER}\noptions timeout:1 attempts:1\n")

    def packets(self) -> dict[str, int]:
        """Return how many packets the client's namespace has sent, by counter."""
        listed = json.loads(run(*self.inside(CLIENT, "nft", "--json", "list", "counters")))
        found = [each["counter"] for each in listed["nftables"] if "counter" in each]
        return {each["name"]: each["packets"] for each in found}

    def processes(self, of: str) -> list[int]:
        """Return the ids of the processes in a namespace; none if it does not exist."""
        ran = subprocess.run(["ip", "netns", "pids", self.name(of)], capture_output=True, text=True, check=False)
        return [int(line) for line in ran.stdout.split()]

    def remove(self) -> None:
        """Remove the namespaces that exist."""
        for of in (CLIENT, TOR, WEB):
            subprocess.run(["ip", "netns", "delete", self.name(of)], capture_output=True, check=False)
        folder = Path("/etc/netns") / self.name(CLIENT)
        (folder / "resolv.conf").unlink(missing_ok=True)
        if folder.is_dir():
            folder.rmdir()

    def _connect(self, of: str, address: str, gateway: str) -> None:
        """Connect a namespace with `tor`, which is its only way out."""
        there = f"{of}0"
        peer = ("peer", "name", there, "netns", self.name(TOR))
        run("ip", "link", "add", "up0", "netns", self.name(of), "type", "veth", *peer)
        run(*self.inside(of, "ip", "address", "add", f"{address}/24", "dev", "up0"))
        run(*self.inside(of, "ip", "link", "set", "up0", "up"))
        run(*self.inside(TOR, "ip", "address", "add", f"{gateway}/24", "dev", there))
        run(*self.inside(TOR, "ip", "link", "set", there, "up"))
        run(*self.inside(of, "ip", "route", "add", "default", "via", gateway))


def run(*command: str, stdin: str | None = None) -> str:
    """Run a command and return its output.

    Raises:
        RuntimeError: It failed. The message has its errors.
    """
    environment = {**os.environ, "LC_ALL": "C"}
    ran = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60, env=environment)
    if ran.returncode:
        raise RuntimeError(f"{' '.join(command)}: exited with {ran.returncode}: {ran.stderr.strip()[:500]}")
    return ran.stdout
