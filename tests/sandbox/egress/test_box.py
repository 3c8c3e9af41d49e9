"""Egress of real boxes: what programs can reach, what they cannot, and what the log contains."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from sandbox.contract import Connection, Destination, End, Job, Language, Limits, Outcome
from sandbox.egress.rules import EgressRules
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox
from tests.eventually import eventually
from tests.sandbox.egress.parts import DEADLINE_S, Authority, Names, Server, echo, http, open_sockets, serving

pytestmark = pytest.mark.spec("BOX-10")
HOST = "api.test"
# What may have come after the first count, and is less than six jobs would leave: a waiting box of each kind, with one
# socket and two, and empty boxes.
SOCKETS_IN_WAITING, BOXES_IN_WAITING = 3, 4


@asynccontextmanager
async def boxes(names: Names | None = None, *private: str, **rules: float) -> AsyncIterator[NamespaceSandbox]:
    """Yield a sandbox whose operator allows the hosts `private`. The name `api.test` resolves to this machine."""
    names = names or Names({HOST: [["127.0.0.1"]]})
    egress = EgressRules(allow_private=frozenset(private or {HOST}), **rules)  # type: ignore[arg-type]
    async with NamespaceSandbox(NamespaceConfig(warm=1, most_warm=1, egress=egress), resolver=names) as sandbox:
        yield sandbox


def refusals(outcome: Outcome) -> list[tuple[str, str]]:
    return [(line.destination, line.reason) for line in outcome.connections if not line.allowed]


def reached(outcome: Outcome) -> set[tuple[str, str]]:
    return {(line.destination, line.address) for line in outcome.connections if line.allowed}


WITHOUT_PROXY = "import os\nfor name in [n for n in os.environ if 'proxy' in n.lower()]:\n    del os.environ[name]\n"
URLLIB = """
import ssl, urllib.request
def get(url):
    context = ssl.create_default_context(cafile="authority.pem")
    return urllib.request.urlopen(url, context=context, timeout=10).read().decode()
get("{url}")
"""
HTTPX = 'import httpx, ssl\nhttpx.get("{url}", verify=ssl.create_default_context(cafile="authority.pem")).text'
REQUESTS = 'import requests\nrequests.get("{url}", verify="authority.pem", timeout=10).text'
CURL = 'curl --silent --show-error --max-time 10 --cacert authority.pem {more} "{url}"'
NODE = """
const tls = require("tls"), fs = require("fs");
const socket = tls.connect({{host: "{host}", servername: "{host}", port: {port}, ca: fs.readFileSync("authority.pem")}}, () => {{
  socket.write("GET / HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n");
}});
let text = "";
socket.on("data", (d) => (text += d));
socket.on("end", () => console.log(text));
setTimeout(() => socket.end(), 300);
"""
NODE_FETCH = 'fetch("{url}").then((r) => r.text()).then(console.log)'

PROGRAMS = [
    ("urllib through the proxy", Language.PYTHON, URLLIB),
    ("urllib that knows no proxy", Language.PYTHON, WITHOUT_PROXY + URLLIB),
    ("httpx through the proxy", Language.PYTHON, HTTPX),
    ("httpx that knows no proxy", Language.PYTHON, WITHOUT_PROXY + HTTPX),
    ("requests through the proxy", Language.PYTHON, REQUESTS),
    ("requests that knows no proxy", Language.PYTHON, WITHOUT_PROXY + REQUESTS),
    ("curl through the proxy", Language.BASH, CURL.replace("{more}", "")),
    ("curl that knows no proxy", Language.BASH, CURL.replace("{more}", "--noproxy '*'")),
    ("node's tls, which knows none", Language.NODE, NODE),
    ("node's fetch", Language.NODE, NODE_FETCH),
]


@pytest.mark.parametrize(("language", "code"), [p[1:] for p in PROGRAMS], ids=[p[0] for p in PROGRAMS])
async def test_a_program_reaches_a_listed_host_over_tls(tmp_path: Path, language: Language, code: str) -> None:
    """Check that TLS is end to end: the program trusts only the test's authority, which the proxy does not have."""
    authority = Authority(tmp_path)
    async with serving(http(body=b"hello over TLS"), context=authority.context(HOST)) as server, boxes() as box:
        url = f"https://{HOST}:{server.port}/"
        for old, new in (("{url}", url), ("{host}", HOST), ("{port}", str(server.port)), ("{{", "{"), ("}}", "}")):
            code = code.replace(old, new)
        outcome = await box.run(
            Job(
                language=language,
                code=code,
                files={"authority.pem": authority.pem},
                env={"NODE_EXTRA_CA_CERTS": "authority.pem"} if language is Language.NODE else {},
                egress=(Destination(HOST, server.port),),
            )
        )
    assert outcome.end is End.OK, outcome
    assert "hello over TLS" in f"{outcome.value}{outcome.stdout.decode()}"
    assert reached(outcome) == {(f"{HOST}:{server.port}", "127.0.0.1")}
    assert all(line.allowed for line in outcome.connections)
    assert sum(line.received_bytes for line in outcome.connections) > len("hello over TLS")


async def test_the_program_itself_rejects_a_certificate_with_another_name(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with serving(http(), context=authority.context("other.test")) as server, boxes() as box:
        to = Destination(HOST, server.port)
        code = URLLIB.replace("{url}", f"https://{to}/")
        outcome = await box.run(Job(code=code, files={"authority.pem": authority.pem}, egress=(to,)))
    assert outcome.error is not None
    assert "certificate is not valid for 'api.test'" in outcome.error.message
    assert [line.allowed for line in outcome.connections] == [True]


async def test_the_server_name_of_tls_arrives_unchanged(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    asked: list[str | None] = []
    context = authority.context("hidden.test")
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    code = """
import socket, ssl
context = ssl.create_default_context(cafile="authority.pem")
with context.wrap_socket(socket.create_connection(("{host}", {port})), server_hostname="hidden.test") as end:
    end.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
    end.recv(100)
"""
    async with serving(http(), context=context) as server, boxes() as box:
        code = code.replace("{host}", HOST).replace("{port}", str(server.port))
        files = {"authority.pem": authority.pem}
        outcome = await box.run(Job(code=code, files=files, egress=(Destination(HOST, server.port),)))
    assert outcome.ok, outcome
    assert asked == ["hidden.test"]


async def test_a_listed_address_is_reached_under_that_address() -> None:
    async with serving(http()) as server, boxes(Names(), "127.0.0.1") as box:
        to = Destination("127.0.0.1", server.port)
        code = WITHOUT_PROXY + f"import urllib.request\nurllib.request.urlopen('http://{to}/').read().decode()"
        outcome = await box.run(Job(code=code, egress=(to,)))
    assert outcome.value == "hello"
    assert reached(outcome) == {(str(to), "127.0.0.1")}


async def test_a_listed_ipv6_address_is_reached_under_that_address() -> None:
    """Connect to an address that is not this machine's; the log shows that the outlet in the box was reached."""
    code = WITHOUT_PROXY + "import socket\nend = socket.create_connection(('fd00::77', 81))\nend.recv(1)"
    async with boxes() as box:
        outcome = await box.run(Job(code=code, egress=(Destination("fd00::77", 81),)))
    assert outcome.error is not None
    assert outcome.error.type == "ConnectionResetError"
    assert refusals(outcome) == [("[fd00::77]:81", "fd00::77 is at fd00::77, and it is a private address")]


async def test_without_destinations_nothing_is_set_up() -> None:
    code = """
import os, socket
def attempt(address):
    try:
        socket.create_connection(address, 2).close()
        return "connected"
    except OSError as problem:
        return problem.strerror
[attempt(("127.0.2.1", 3128)), attempt(("192.0.2.1", 80)), [n for n in os.environ if "proxy" in n.lower()], open("/etc/hosts").read()]
"""
    async with boxes() as box:
        outcome = await box.run(Job(code=code))
    assert outcome.value == [
        "Connection refused",
        "Network is unreachable",
        [],
        "127.0.0.1 localhost box\n::1 localhost\n",
    ]
    assert outcome.connections == ()


# Code that evaluates to "connected" if the attempt worked.
ATTEMPT = """
import socket
def attempt(host, port, kind=socket.SOCK_STREAM):
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, kind) as end:
            end.settimeout(3)
            end.connect((host, port))
            if kind == socket.SOCK_DGRAM:
                end.send(b"x")
        return "connected"
    except OSError as problem:
        return type(problem).__name__
"""
BARE = "a bare address that is not on the job's list of destinations"
STRAYS = [
    ("a public address", "8.8.8.8", 443, BARE),
    ("a cloud's metadata", "169.254.169.254", 80, BARE),
    ("a private address", "10.0.0.1", 22, BARE),
    ("an address of IPv6", "2606:4700::1111", 443, BARE),
    ("a private address of IPv6", "fd00:ec2::254", 80, BARE),
    ("a mapped address", "::ffff:8.8.8.8", 443, BARE),
]


@pytest.mark.parametrize(("host", "port", "reason"), [s[1:] for s in STRAYS], ids=[s[0] for s in STRAYS])
async def test_a_bare_address_is_refused_at_once_and_recorded(host: str, port: int, reason: str) -> None:
    async with boxes() as box:
        outcome = await box.run(Job(code=f"{ATTEMPT}\nattempt({host!r}, {port})", egress=(Destination(HOST, 443),)))
    assert outcome.value == "ConnectionRefusedError"
    assert refusals(outcome) == [(str(Destination(host.removeprefix("::ffff:"), port)), reason)]


async def test_another_port_of_a_listed_name_is_refused_and_recorded_by_name() -> None:
    code = f"{WITHOUT_PROXY}{ATTEMPT}\nattempt({HOST!r}, 22)"
    async with boxes() as box:
        outcome = await box.run(Job(code=code, egress=(Destination(HOST, 443),)))
    assert outcome.value == "ConnectionRefusedError"
    assert refusals(outcome) == [(f"{HOST}:22", "not on the job's list of destinations")]


async def test_connections_to_the_jobs_own_servers_are_not_recorded() -> None:
    code = """
import socket, urllib.request
with socket.create_server(("127.0.0.1", 0)) as server:
    end = socket.create_connection(server.getsockname())
    server.accept()[0].sendall(b"own")
    got = end.recv(10).decode()
got
"""
    async with boxes() as box:
        outcome = await box.run(Job(code=code, egress=(Destination(HOST, 443),)))
    assert outcome.value == "own"
    assert outcome.connections == ()


async def test_udp_is_dropped_and_recorded() -> None:
    code = f"{ATTEMPT}\nattempt('8.8.8.8', 53, socket.SOCK_DGRAM)\nattempt('2606:4700::1111', 53, socket.SOCK_DGRAM)"
    async with boxes() as box:
        outcome = await box.run(Job(code=code, egress=(Destination(HOST, 443),)))
    assert refusals(outcome) == [
        ("8.8.8.8:53", f"{BARE}; UDP never leaves a box"),
        ("[2606:4700::1111]:53", f"{BARE}; UDP never leaves a box"),
    ]


async def test_the_hosts_own_servers_are_out_of_reach() -> None:
    async with serving(echo) as server, serving(echo) as listed, boxes() as box:
        code = f"""{ATTEMPT}
[attempt(host, {server.port}) for host in ("127.0.0.1", "::1", "0.0.0.0", "127.0.1.1", "127.0.0.53")]
"""
        outcome = await box.run(Job(code=code, egress=(Destination(HOST, listed.port),)))
        assert outcome.value == ["ConnectionRefusedError"] * 5
        assert server.connections == 0


async def test_a_name_that_is_not_listed_does_not_resolve() -> None:
    code = "import socket\ntry:\n    socket.getaddrinfo('evil.test', 443)\nexcept OSError as problem:\n    r = type(problem).__name__\nr"
    names = Names({HOST: [["127.0.0.1"]], "evil.test": [["127.0.0.1"]]})
    async with boxes(names) as box:
        assert (await box.run(Job(code=code, egress=(Destination(HOST, 443),)))).value == "gaierror"
    assert names.asked == []


async def test_other_hosts_and_ports_are_refused_by_the_proxy_with_a_reason() -> None:
    async with serving(http()) as server, boxes() as box:
        to = Destination(HOST, server.port)
        code = f"""
import urllib.request
def get(url):
    try:
        return urllib.request.urlopen(url, timeout=10).read().decode()
    except OSError as problem:
        return str(problem)
[get("https://evil.test/"), get("https://{HOST}:22/"), get("http://169.254.169.254/latest/"), get("http://{to}/")]
"""
        outcome = await box.run(Job(code=code, egress=(to,)))
    evil, port, metadata, listed = outcome.value
    assert "403 evil.test:443 is not on the job's list of destinations" in evil
    assert f"403 {HOST}:22 is not on the job's list" in port
    assert metadata.startswith("HTTP Error 403: 169.254.169.254:80 is not on the job's list")
    assert listed == "hello"
    assert [destination for destination, _ in refusals(outcome)] == [
        "evil.test:443",
        f"{HOST}:22",
        "169.254.169.254:80",
    ]


@pytest.mark.parametrize(
    "answers",
    [["8.8.8.8", "10.0.0.1"], ["::1"], ["::ffff:127.0.0.1"], ["0.0.0.0"], ["169.254.169.254"], ["64:ff9b::7f00:1"]],
)
@pytest.mark.parametrize("proxy", ["", WITHOUT_PROXY], ids=["proxy", "direct"])
async def test_hostile_dns_answers_reach_nothing(answers: list[str], proxy: str) -> None:
    async with serving(http()) as server, boxes(Names({HOST: [answers]}), "unrelated.test") as box:
        to = Destination(HOST, server.port)
        code = f"{proxy}\nimport urllib.request\nurllib.request.urlopen('http://{to}/')"
        outcome = await box.run(Job(code=code, egress=(to,)))
        assert outcome.end is End.ERROR
        assert server.connections == 0
    assert {destination for destination, _ in refusals(outcome)} == {str(to)}
    assert refusals(outcome)[0][1].startswith(f"{HOST} is at ")


async def test_a_name_that_is_rebound_is_checked_again() -> None:
    names = Names({HOST: [["127.0.0.1"], ["169.254.169.254"]]})
    async with serving(http()) as server, boxes(names) as box:
        to = Destination(HOST, server.port)
        code = f"""
import urllib.request
def get():
    try:
        return urllib.request.urlopen("http://{to}/", timeout=10).read().decode()
    except OSError as problem:
        return type(problem).__name__
[get(), get()]
"""
        outcome = await box.run(Job(code=code, egress=(to,)))
        assert outcome.value == ["hello", "HTTPError"]
        assert server.connections == 1
    assert refusals(outcome) == [(str(to), f"{HOST} is at 169.254.169.254, and it is a link-local address")]


@pytest.mark.parametrize("proxy", ["", WITHOUT_PROXY], ids=["proxy", "direct"])
@pytest.mark.parametrize("location", ["http://127.0.0.1:{secret}/", "http://10.0.0.1/", f"http://{HOST}:{{secret}}/"])
async def test_a_redirect_cannot_reach_other_hosts(proxy: str, location: str) -> None:
    async with serving(http(body=b"secret")) as secret:
        where = location.replace("{secret}", str(secret.port))
        async with (
            serving(http(status="302 Found", fields=f"Location: {where}\r\n", body=b"")) as server,
            boxes() as box,
        ):
            to = Destination(HOST, server.port)
            code = f"{proxy}\nimport urllib.request\nurllib.request.urlopen('http://{to}/', timeout=10).read().decode()"
            outcome = await box.run(Job(code=code, egress=(to,)))
        assert outcome.end is End.ERROR
        assert secret.connections == 0
    assert reached(outcome) == {(str(to), "127.0.0.1")}
    if "127.0.0.1" not in where:  # this address is the box itself, where nothing listens
        wanted = Destination.parse(where.removeprefix("http://").rstrip("/") + ("" if HOST in where else ":80"))
        assert [destination for destination, _ in refusals(outcome)] == [str(wanted)]


async def test_two_jobs_do_not_share_their_destinations() -> None:
    async with serving(http(body=b"a")) as a, serving(http(body=b"b")) as b, boxes() as box:

        async def ask(mine: Server, other: Server) -> object:
            code = f"""
import urllib.request
def get(port):
    try:
        return urllib.request.urlopen(f"http://{HOST}:{{port}}/", timeout=10).read().decode()
    except OSError as problem:
            return "refused"
[get({mine.port}), get({other.port})]
"""
            return (await box.run(Job(code=code, egress=(Destination(HOST, mine.port),)))).value

        assert await asyncio.gather(ask(a, b), ask(b, a)) == [["a", "refused"], ["b", "refused"]]


ENDLESS = b"x" * 65_536


async def _endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(ENDLESS)
        await writer.drain()


DOWNLOAD = (
    WITHOUT_PROXY
    + """
import socket
end = socket.create_connection(("{host}", {port}))
while True:
    end.recv(65536)
"""
)


async def test_the_outcome_of_a_timed_out_job_lists_its_unfinished_transfer() -> None:
    async with serving(_endless) as server, boxes() as box:
        code = DOWNLOAD.replace("{host}", HOST).replace("{port}", str(server.port))
        job = Job(code=code, egress=(Destination(HOST, server.port),), limits=Limits(wall_s=1.0))
        outcome = await box.run(job)
        await eventually(lambda: bool(server.ended) and server.ended[0].is_set())
    assert outcome.end is End.TIMEOUT
    (line,) = outcome.connections
    assert line.allowed
    assert line.received_bytes > 1 << 20


async def test_a_cancelled_job_leaves_no_connection_and_no_socket() -> None:
    async with serving(_endless) as server, boxes() as box:
        await box.run(Job(code="1"))
        before, tasks, namespaces = open_sockets(), asyncio.all_tasks(), _network_namespaces()
        code = DOWNLOAD.replace("{host}", HOST).replace("{port}", str(server.port))
        for _ in range(6):
            job = Job(code=code, egress=(Destination(HOST, server.port),))
            running = asyncio.create_task(box.run(job))
            wanted = server.connections + 1
            await eventually(lambda wanted=wanted: server.connections == wanted)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        await eventually(lambda: all(ended.is_set() for ended in server.ended))
        await eventually(lambda: len(open_sockets()) <= len(before) + SOCKETS_IN_WAITING)
        await eventually(lambda: asyncio.all_tasks() - tasks == set())
        await eventually(lambda: len(_network_namespaces()) <= len(namespaces) + BOXES_IN_WAITING)


async def test_a_hundred_jobs_with_egress_leave_nothing_open() -> None:
    async with serving(http()) as server, boxes() as box:
        await box.run(Job(code="1"))
        before = open_sockets()
        to = Destination(HOST, server.port)
        job = Job(code=f"import urllib.request\nurllib.request.urlopen('http://{to}/').read().decode()", egress=(to,))
        outcomes = await asyncio.gather(*(box.run(job) for _ in range(100)))
        assert {outcome.value for outcome in outcomes} == {"hello"}
        await eventually(lambda: all(ended.is_set() for ended in server.ended))
        await eventually(lambda: len(open_sockets()) <= len(before) + SOCKETS_IN_WAITING)


async def test_data_that_a_job_sends_just_before_its_end_arrives() -> None:
    got = bytearray()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.extend(await reader.read())

    code = (
        WITHOUT_PROXY
        + "import os, socket\nend = socket.create_connection(('{host}', {port}))\nend.sendall(b'x' * 50_000)\nos._exit(0)"
    )
    async with serving(take) as server, boxes() as box:
        code = code.replace("{host}", HOST).replace("{port}", str(server.port))
        await box.run(Job(code=code, egress=(Destination(HOST, server.port),)))
        await eventually(lambda: bool(server.ended) and server.ended[0].is_set())
    assert len(got) == 50_000


async def test_the_log_of_a_flood_of_attempts_is_bounded() -> None:
    code = f"{ATTEMPT}\nfor n in range(3000):\n    attempt('8.8.8.8', 1 + n)"
    heard: list[Connection] = []
    rules = EgressRules(kept=100)
    async with NamespaceSandbox(NamespaceConfig(warm=1, egress=rules), on_connection=heard.append) as box:
        outcome = await asyncio.wait_for(box.run(Job(code=code, egress=(Destination(HOST, 443),))), DEADLINE_S)
    assert outcome.ok
    assert 100 <= len(outcome.connections) <= 101
    assert len(heard) < 300


async def test_a_job_cannot_change_its_egress() -> None:
    code = """
import os, socket
def attempt(f):
    try:
        return bool(f()) or True
    except OSError as problem:
        return type(problem).__name__
[
    attempt(lambda: open("/etc/hosts", "a")),
    attempt(lambda: os.unlink("/etc/hosts")),
    attempt(lambda: socket.create_server(("127.0.2.1", 3128))),
    attempt(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)),
    attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),
    attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 6)),
]
"""
    async with boxes() as box:
        outcome = await box.run(Job(code=code, egress=(Destination(HOST, 443),)))
    assert all(isinstance(answer, str) for answer in outcome.value), outcome.value


async def test_thirty_two_destinations_are_served_at_once() -> None:
    async with (
        serving(http()) as server,
        boxes(Names({f"h{i}.test": [["127.0.0.1"]] for i in range(32)}), *(f"h{i}.test" for i in range(32))) as box,
    ):
        code = (
            WITHOUT_PROXY
            + f"import urllib.request\n[urllib.request.urlopen(f'http://h{{i}}.test:{server.port}/').read().decode() for i in range(32)]"
        )
        job = Job(code=code, egress=tuple(Destination(f"h{i}.test", server.port) for i in range(32)))
        outcome = await box.run(job)
    assert outcome.value == ["hello"] * 32
    assert len(reached(outcome)) == 32


def _network_namespaces() -> set[str]:
    """Return the network namespaces of the descendants of this process, by inode."""
    parents, found = {}, set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[pid] = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        except OSError:  # the process has ended in the meantime
            continue
    for pid in parents:
        above = pid
        while above in parents and above != str(os.getpid()):
            above = parents[above]
        if above == str(os.getpid()):
            with suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/ns/net"))
    return found
