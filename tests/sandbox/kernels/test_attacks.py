"""Attacks that only kernels allow: they run between cells, have ports, and receive shutdown requests."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from jupyter_client.manager import AsyncKernelManager

from sandbox.contract import Busy, End, Job, SandboxError
from sandbox.kernels.pool import KernelPool, PoolConfig
from sandbox.kernels.spec import CellLimits
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox
from tests.eventually import eventually
from tests.sandbox.kernels.forger import BRIEF, must_be_sound
from tests.sandbox.kernels.starting import ANN, BOB, CID, Start
from tests.sandbox.test_cleanup import marked

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("KERN-1")]

# Junk on the connections that process 1 forwards, which the engine's ZeroMQ reads.
JUNK = """
import os, random, socket, stat, struct
chance = random.Random(%d)
command = lambda body: b'\\x04' + bytes([len(body)]) + body
kinds = (
    lambda: chance.randbytes(5000),
    lambda: b'\\0' * 5000,
    lambda: b'\\xff' * 5000,
    lambda: command(b'\\x05ERROR\\x03bad') * 100,
    lambda: command(b'\\x04PING\\xff\\xffcontext') * 10_000,
    lambda: command(b'\\x05READY' + b'\\xff' * 200),
    lambda: command(b'\\x09SUBSCRIBE') * 1000,
    lambda: b'\\x02' + struct.pack('!Q', 1 << 63),
    lambda: (b'\\x01\\0') * 100_000,
    lambda: b'\\xff\\0\\0\\0\\0\\0\\0\\0\\x01\\x7f\\x03\\x00NULL' + chance.randbytes(200),
)
def ends():
    for fd in map(int, os.listdir('/proc/self/fd')):
        try:
            if not stat.S_ISSOCK(os.fstat(fd).st_mode): continue
            end = socket.socket(fileno=os.dup(fd))
            if end.family == socket.AF_INET and end.getsockname()[1] > 61000 and end.getpeername(): yield end
        except OSError: pass
def junk():
    for end in ends():
        try:
            end.setblocking(False)
            end.send(chance.choice(kinds)())
        except OSError: pass
print(len(list(ends())))
"""
IN_ITS_PLACE = """
for fd in map(int, os.listdir('/proc/self/fd')):
    try:
        if stat.S_ISSOCK(os.fstat(fd).st_mode): os.close(fd)
    except OSError: pass
import threading
def serve(port):
    server = socket.create_server(('127.0.0.1', port))
    while True:
        end, _ = server.accept()
        try:
            end.sendall(b'\\xff\\0\\0\\0\\0\\0\\0\\0\\x01\\x7f\\x03\\x01NULL' + bytes(16) + b'\\0' + bytes(31))
            end.sendall(chance.choice(kinds)())
        except OSError: pass
for port in range(61001, 61006): threading.Thread(target=serve, args=(port,), daemon=True).start()
import time; time.sleep(30)
"""


@pytest.mark.spec("KERN-1", "KERN-5")
@pytest.mark.parametrize("seed", range(6))
async def test_junk_on_a_kernels_connections_affects_only_that_kernel(start: Start, seed: int) -> None:
    kernel, talk = await start()
    assert int((await talk.run(JUNK % seed, CellLimits())).stdout) >= 3
    cell = await talk.run(IN_ITS_PLACE if seed % 2 else "for _ in range(20): junk()", BRIEF)
    must_be_sound(cell)
    if kernel.alive:
        after = await talk.run("1", BRIEF)
        must_be_sound(after)
        assert after.ok or after.state_lost or after.end is End.TIMEOUT
    _, other = await start()
    assert (await other.run("1", CellLimits())).ok


async def test_the_engine_ignores_a_second_client_in_the_box(start: Start) -> None:
    _, talk = await start()
    code = """
from jupyter_client.blocking import BlockingKernelClient
key = get_ipython().kernel.session.key
ports = dict(zip(('shell', 'iopub', 'stdin', 'control', 'hb'), range(61001, 61006)))
client = BlockingKernelClient()
client.load_connection_info({'ip': '127.0.0.1', 'transport': 'tcp', 'key': key, 'signature_scheme': 'hmac-sha256',
                             **{f'{name}_port': port for name, port in ports.items()}})
client.start_channels()
client.execute('print("of the second client"); y = 5')
print('mine')
"""
    assert (await talk.run(code, CellLimits())).stdout == "mine\n"
    cell = await talk.run("print(y)", CellLimits())
    assert (cell.stdout, cell.count) == ("5\n", 3)


async def test_a_cell_that_interrupts_itself_keeps_its_state(start: Start) -> None:
    _, talk = await start()
    cell = await talk.run("x = 1; import os; os.kill(os.getpid(), 2); import time; time.sleep(30)", CellLimits())
    assert cell.error is not None
    assert cell.error.type == "KeyboardInterrupt"
    assert (await talk.run("print(x)", CellLimits())).stdout == "1\n"


async def test_a_cell_that_uses_up_the_descriptors_keeps_its_kernel(start: Start) -> None:
    _, talk = await start(open_files=128)
    cell = await talk.run("x = []\nwhile True: x.append(open('/dev/null'))", CellLimits())
    assert cell.error is not None
    assert "Too many open files" in cell.error.message
    assert not cell.state_lost
    assert (await talk.run("del x", CellLimits())).ok


@pytest.mark.spec("KERN-1", "KERN-6")
@pytest.mark.parametrize(
    ("left", "spec", "why"),
    [
        ("import threading\nfor _ in range(2): threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start()",
         {"cpu_s": 1.0}, "cpu"),
        ("import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n        x = b'x' * (120 << 20)\n        time.sleep(30)",
         {"memory_bytes": 300 << 20}, "memory"),
    ],
    ids=["threads that work", "children that hold memory"],
)  # fmt: skip
async def test_processes_that_a_cell_leaves_count_towards_the_kernels_limits(
    start: Start, left: str, spec: dict[str, object], why: str
) -> None:
    kernel, talk = await start(**spec)
    await talk.run(left, CellLimits())
    async with asyncio.timeout(30):
        await kernel.gone()
    assert why in kernel.why


LEAVE = """
import os, sys
home = os.path.expanduser('~')
for folder in (home + '/.ipython/profile_default/startup', home + '/.jupyter', '/tmp/left'):
    os.makedirs(folder, exist_ok=True)
    open(folder + '/00-left.py', 'w').write("left = 'was here'")
for path in ('/tmp/left.py', '/dev/shm/left', 'sitecustomize.py', 'left.py', 'ipykernel.py'): open(path, 'w').write("left = 'was here'")
import IPython; IPython.left = left = 'was here'
get_ipython().__class__.left = 'was here'
os.environ['LEFT'] = 'was here'
sys.modules['left'] = sys
print(get_ipython().kernel.session.key)
"""
LOOK = """
import os, sys, IPython
found = [name for name in ('left',) if name in globals()]
for top in (os.path.expanduser('~'), '/tmp', '/dev/shm', '/work', os.getcwd()):
    found += [os.path.join(at, name) for at, _, names in os.walk(top) for name in names if 'left' in name or 'custom' in name]
if hasattr(IPython, 'left') or hasattr(get_ipython(), 'left') or 'LEFT' in os.environ or 'left' in sys.modules: found.append('memory')
print(found, [pid for pid in os.listdir('/proc') if pid.isdigit() and pid not in ('1', str(os.getpid()))])
print(get_ipython().kernel.session.key)
"""


@pytest.mark.spec("KERN-1", "BOX-4", "BOX-5")
async def test_kernels_of_one_pool_are_isolated_from_each_other(box: NamespaceSandbox) -> None:
    async with KernelPool(box, PoolConfig(warm=1)) as pool:
        first = await pool.run(ANN, LEAVE)
        assert first.ok
        beside = await pool.run(BOB, LOOK)
        await pool.find(ANN).stop()
        after = await pool.run(CID, LOOK)
    keys = {first.stdout.strip()}
    for cell in (beside, after):
        found, _, key = cell.stdout.strip().partition("\n")
        assert found == "[] []", cell
        keys.add(key)
    assert len(keys) == 3


@pytest.mark.spec("KERN-6", "BOX-7")
async def test_jobs_get_boxes_when_all_kernels_are_in_use() -> None:
    async with (
        NamespaceSandbox(NamespaceConfig(max_boxes=1)) as box,
        KernelPool(box, PoolConfig(most=3, per_agent=2, warm=1)) as pool,
    ):
        for owner, name in ((ANN, "a"), (ANN, "b"), (BOB, "a")):
            assert (await pool.run(owner, "1", name=name)).ok
        with pytest.raises(SandboxError, match="2 kernels already"):
            await pool.run(ANN, "1", name="c")
        with pytest.raises(Busy):
            await pool.run(BOB, "1", name="b")
        for outcome in await asyncio.gather(*(box.run(Job(code="6 * 7")) for _ in range(4))):
            assert outcome.value == 42
        assert (await pool.run(BOB, "1", name="a")).ok


@asynccontextmanager
async def managed(folder: Path) -> AsyncIterator[AsyncKernelManager]:
    """Yield Jupyter's own manager with a kernel of our provisioner."""
    spec = folder / "kernels" / "boxed"
    spec.mkdir(parents=True)
    named = {"kernel_provisioner": {"provisioner_name": "knackbox"}}
    (spec / "kernel.json").write_text(
        json.dumps({"argv": [], "display_name": "b", "language": "python", "metadata": named})
    )
    manager = AsyncKernelManager(kernel_name="boxed")
    await manager.start_kernel()
    try:
        yield manager
    finally:
        await manager.shutdown_kernel(now=True)


@pytest.mark.spec("KERN-2", "BOX-4")
async def test_a_kernel_that_ignores_a_shutdown_request_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    mark = f"{os.getpid()}.991"
    async with managed(tmp_path) as manager:
        manager.shutdown_wait_time = 1.0
        client = manager.client()
        client.start_channels()
        await client.wait_for_ready(timeout=30)
        code = (
            "import signal, subprocess\nfor n in (1, 2, 3, 15): signal.signal(n, signal.SIG_IGN)\n"
            f"subprocess.Popen(['sleep', '{mark}'], start_new_session=True)\n"
            "k = get_ipython().kernel\nk.do_shutdown = lambda restart: {'status': 'ok', 'restart': restart}\n"
            "k.shell_stream.io_loop.stop = k.io_loop.stop = k.control_stream.io_loop.stop = lambda: None"
        )
        await client.execute_interactive(code, timeout=30)
        client.stop_channels()
        assert marked(mark)
        await manager.shutdown_kernel()
        assert not await manager.is_alive()
    await eventually(lambda: not marked(mark))
