"""Secrets of real boxes: common programs can use them, and hostile ones do not get them."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sandbox.contract import Destination, Job, Language, Outcome
from sandbox.egress.rules import EgressRules
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox
from sandbox.secrets.secret import SecretHost
from tests.sandbox.egress.parts import Authority, Names, serving
from tests.sandbox.egress.secret_parts import PLACEHOLDER, VALUE, Seen, revealing, reveals, secret

pytestmark = [pytest.mark.spec("CODE-7"), pytest.mark.slow]
HOST = "api.test"


@asynccontextmanager
async def box_and_server(folder: Path) -> AsyncIterator[tuple[NamespaceSandbox, Destination, Seen]]:
    """Yield a sandbox with a secret, and the TLS server to which the secret belongs."""
    seen, authority = Seen(), Authority(folder)
    async with serving(revealing(seen), context=authority.context(HOST)) as server:
        to = Destination(HOST, server.port)
        config = NamespaceConfig(
            warm=1,
            egress=EgressRules(allow_private=frozenset({HOST})),
            secrets=(secret(SecretHost(HOST, server.port)),),
        )

        def trust() -> ssl.SSLContext:
            return ssl.create_default_context(cadata=authority.pem.decode())

        names = Names({HOST: [["127.0.0.1"]]})
        async with NamespaceSandbox(config, resolver=names, trust=trust) as sandbox:
            yield sandbox, to, seen


def everything(outcome: Outcome) -> str:
    """Return all that a job has left, as text."""
    files = " ".join(data.decode("latin-1") for data in outcome.files.values())
    return f"{outcome!r} {outcome.stdout.decode()} {outcome.stderr.decode()} {files}"


WITHOUT_PROXY = "import os\nfor name in [n for n in os.environ if 'proxy' in n.lower()]:\n    del os.environ[name]\n"
URLLIB = """
import os, urllib.request
request = urllib.request.Request("{url}", headers={"X-Key": os.environ["KNACKBOX_SECRET_TOKEN"]})
print(urllib.request.urlopen(request, timeout=20).read().decode())
"""
HTTPX = 'import httpx, os\nprint(httpx.get("{url}", headers={"X-Key": os.environ["KNACKBOX_SECRET_TOKEN"]}).text)'
REQUESTS = """
import os, requests
key = os.environ["KNACKBOX_SECRET_TOKEN"]
print(requests.get("{url}", auth=("user", key), headers={"X-Key": key}, timeout=20).text)
"""
CURL = 'curl --silent --show-error --max-time 20 {more} -H "X-Key: $KNACKBOX_SECRET_TOKEN" "{url}"'
NODE_FETCH = """
fetch("{url}", {headers: {"X-Key": process.env.KNACKBOX_SECRET_TOKEN}}).then((r) => r.text()).then(console.log);
"""
PROGRAMS = [
    ("urllib through the proxy", Language.PYTHON, URLLIB),
    ("urllib that knows no proxy", Language.PYTHON, WITHOUT_PROXY + URLLIB),
    ("httpx", Language.PYTHON, HTTPX),
    ("requests", Language.PYTHON, REQUESTS),
    ("curl through the proxy", Language.BASH, CURL.replace("{more}", "")),
    ("curl that knows no proxy", Language.BASH, CURL.replace("{more}", "--noproxy '*'")),
    ("node's fetch", Language.NODE, NODE_FETCH),
]


@pytest.mark.parametrize(("language", "code"), [p[1:] for p in PROGRAMS], ids=[p[0] for p in PROGRAMS])
async def test_common_programs_use_a_secret_without_knowing_it(tmp_path: Path, language: Language, code: str) -> None:
    async with box_and_server(tmp_path) as (box, to, seen):
        outcome = await box.run(Job(language=language, code=code.replace("{url}", f"https://{to}/echo"), egress=(to,)))
    assert outcome.ok, outcome
    assert VALUE.encode() in seen.everything
    assert PLACEHOLDER in outcome.stdout.decode()
    assert not reveals(everything(outcome))


ASK = """
import gzip, http.client, os, ssl, subprocess, sys, zlib
KEY = os.environ.get("KNACKBOX_SECRET_TOKEN", "none")
def ask(path, fields=None, body=None, method="GET"):
    connection = http.client.HTTPSConnection("{host}", {port}, timeout=20)
    try:
        connection.request(method, path, body, {"X-Key": KEY, **(fields or {})})
        response = connection.getresponse()
        return [response.status, response.reason, response.getheaders(), response.read().decode("latin-1")]
    except Exception as problem:
        return repr(problem)
"""
SEARCH = """
import os
found = []
def look(path):
    try:
        with open(path, "rb") as file:
            found.append(file.read(1 << 20).decode("latin-1"))
    except OSError:
        pass
for process in [p for p in os.listdir("/proc") if p.isdigit()] + ["self"]:
    for name in ("environ", "cmdline", "maps", "stack", "mountinfo", "net/tcp", "net/unix"):
        look(f"/proc/{process}/{name}")
for folder in ("/etc", "/tmp", "/work", "/box", "/run", "/dev/shm"):
    for root, _, names in os.walk(folder):
        for name in names:
            look(os.path.join(root, name))
found.append(repr(os.environ))
"\\n".join(found)
"""
MEMORY = """
import re
found = []
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for line in maps:
        span = re.match(r"([0-9a-f]+)-([0-9a-f]+) r", line)
        if span and "[v" not in line:
            try:
                memory.seek(int(span[1], 16))
                data = memory.read(int(span[2], 16) - int(span[1], 16))
            except (OSError, OverflowError, ValueError):
                continue
            found += [m.decode("latin-1") for m in re.findall(rb"s3cr3t.{0,30}", data)]
found
"""
ATTACKS = [
    ("the environment, /proc and all files", SEARCH, False),
    ("its own memory, inherited from the template", MEMORY.replace("s3cr3t.", "s3cr3[t]."), False),
    ("an echo", ASK + "ask('/echo')", True),
    ("an echo in a header", ASK + "ask('/header')", True),
    ("an echo in upper case", ASK + "ask('/upper')", True),
    ("an echo in base64", ASK + "ask('/base64')", True),
    ("an error message of the server", ASK + "ask('/error')", True),
    ("a compressed echo", ASK + "ask('/gzip', {'Accept-Encoding': 'gzip'})", True),
    ("a part of the echo", ASK + "[ask('/partial', {'Range': 'bytes=0-9'}), ask('/partial', {'Range': 'bytes=10-'})]", True),
    ("a status line", ASK + "ask('/status')", True),
    ("an upgrade", ASK + "ask('/upgrade', {'Connection': 'upgrade', 'Upgrade': 'websocket'})", False),
    ("another Host", ASK + "ask('/echo', {'Host': 'other.test'})", False),
    ("the query", ASK + "ask('/echo?k=' + KEY)", True),
    ("a form", ASK + "ask('/echo', {'Content-Type': 'application/x-www-form-urlencoded'}, 'k=' + KEY, 'POST')", True),
    ("half a placeholder", ASK + "ask('/echo', {'X-Key': KEY[:-1], 'X-More': KEY[-1]})", False),
    ("a placeholder in upper case", ASK + "ask('/echo', {'X-Key': KEY.upper()})", False),
    ("stderr", ASK + "print(ask('/echo'), file=sys.stderr)", True),
    ("an exception", ASK + "raise ValueError(ask('/echo'))", True),
    ("a file", ASK + "open('out.txt', 'w').write(repr(ask('/echo')))", True),
    ("a child process", ASK + "subprocess.run([sys.executable, '-c', 'import os; print(os.environ)'], check=True)", False),
    ("a debugging proxy's variable", ASK + "os.environ['SSLKEYLOGFILE'] = 'keys.txt'\n[ask('/echo'), open('keys.txt').read() if os.path.exists('keys.txt') else '']", True),
]  # fmt: skip


@pytest.mark.escapes
@pytest.mark.parametrize(("code", "reaches"), [a[1:] for a in ATTACKS], ids=[a[0] for a in ATTACKS])
async def test_a_program_does_not_get_the_value(
    tmp_path: Path, code: str, reaches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Try to get the value. The engine's own environment contains it, as with `from = "env:…"`."""
    monkeypatch.setenv("TOKEN_OF_THE_ENGINE", VALUE)
    async with box_and_server(tmp_path) as (box, to, seen):
        program = code.replace("{host}", to.host).replace("{port}", str(to.port))
        outcome = await box.run(Job(code=program, egress=(to,), collect=("*.txt",)))
    assert (VALUE.encode() in seen.everything or VALUE.replace("/", "%2F").encode()[:8] in seen.everything) == reaches
    assert not reveals(everything(outcome))
    assert outcome.ok or outcome.error is not None


async def test_a_job_without_the_destination_gets_no_placeholder(tmp_path: Path) -> None:
    code = "import os\n[n for n in os.environ if 'SECRET' in n or 'CERT' in n], open('/etc/knackbox-authorities.pem').read()"
    async with box_and_server(tmp_path) as (box, to, _):
        without = await box.run(Job(code=code))
        other = await box.run(Job(code=code, egress=(Destination("other.test", 443),)))
        own = await box.run(Job(code=code, egress=(to,)))
    assert without.value == other.value == [[], ""]
    assert "KNACKBOX_SECRET_TOKEN" in own.value[0]
    assert "BEGIN CERTIFICATE" in own.value[1]
    assert "PRIVATE KEY" not in own.value[1]


async def test_the_placeholder_is_worthless_for_other_destinations(tmp_path: Path) -> None:
    """Connect to a second server that the job may reach, with the placeholder of the first."""
    stranger = Seen()
    async with serving(revealing(stranger)) as second, box_and_server(tmp_path) as (box, to, _):
        there = Destination(HOST, second.port)
        code = f"""
import os, urllib.request
key = os.environ["KNACKBOX_SECRET_TOKEN"]
urllib.request.urlopen(urllib.request.Request("http://{there}/echo?k=" + key, headers={{"X-Key": key}})).read().decode()
"""
        outcome = await box.run(Job(code=code, egress=(to, there)))
    assert outcome.ok, outcome
    assert PLACEHOLDER.encode() in stranger.everything
    assert not reveals(stranger.everything)
