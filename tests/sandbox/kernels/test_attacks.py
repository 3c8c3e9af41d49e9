"""What only a kernel could do: it speaks Jupyter's protocol to the engine, lives on between cells, and has the key."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest
from jupyter_client.manager import AsyncKernelManager

from sandbox.contract import Busy, End, Job, SandboxError
from sandbox.kernels.boxed import BoxedKernel
from sandbox.kernels.pool import KernelPool, PoolConfig
from sandbox.kernels.spec import Cell, CellLimits
from sandbox.kernels.talk import Talk
from sandbox.namespace.backend import NamespaceConfig, NamespaceSandbox
from tests.sandbox.kernels.conftest import Start
from tests.sandbox.test_cleanup import marked, wait_until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("KERN-1")]

BRIEF = CellLimits(wall_s=1.0, grace_s=1.0)
GROWTH = 96 << 20
# Run as a cell before the attack. `signed` makes a message of four parts as they are; `publish` and `reply` send parts
# as the kernel would, on behalf of the cell that runs.
FORGER = """
import json, os, socket, sys, time
kernel = get_ipython().kernel
session = kernel.session
stream = kernel.shell_channel_thread.manager.get_subshell_to_shell_channel_socket(None)
def signed(content, kind='stream', header=None, parent=None, metadata=b'{}', signature=None):
    header = json.dumps({**session.msg_header(kind), 'date': '2024-01-01T00:00:00Z'}).encode() if header is None else header
    parent = json.dumps(kernel.get_parent(), default=str).encode() if parent is None else parent
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    parts = [header, parent, metadata, content]
    return [b'<IDS|MSG>', session.sign(parts) if signature is None else signature, *parts]
def publish(parts): kernel.iopub_socket.send_multipart([b'topic', *parts])
def reply(parts): stream.send_multipart([*kernel._parent_ident["shell"], *parts])
hi = {'name': 'stdout', 'text': 'forged'}
def data(text): return b'{"data": {"text/plain": ' + text + b'}, "metadata": {}, "transient": {}}'
"""
FORGED = {
    "is not signed": "publish(signed(hi, signature=b''))",
    "is signed with another key": "publish(signed(hi, signature=b'0' * 64))",
    "is sent twice": "m = signed(hi); publish(m); publish(m)",
    "has no parts": "kernel.iopub_socket.send_multipart([b''])",
    "has too few parts": "publish(signed(hi)[:4])",
    "has ten thousand parts": "publish(signed(hi) + [b'x'] * 10_000)",
    "has a header that is a list": "publish(signed(hi, header=b'[]'))",
    "has a header that is empty": "publish(signed(hi, header=b'{}'))",
    "has a header with a kind that is a list": "publish(signed(hi, header=b'{\"msg_id\": \"1\", \"msg_type\": []}'))",
    "has a header with a date that is none":
        "publish(signed(hi, header=b'{\"msg_id\": \"1\", \"msg_type\": \"stream\", \"date\": \"2024-99-99T99:99:99Z\"}'))",
    "has a parent that is null": "publish(signed(hi, parent=b'null'))",
    "has a parent with a list for an id": "publish(signed(hi, parent=b'{\"msg_id\": []}'))",
    "has content that is a list": "publish(signed(b'[]'))",
    "has content that is null": "publish(signed(b'null', kind='status'))",
    "has content that is no text": "publish(signed(b'{\"text\": \"\\xff\\xfe\"}'))",
    "has content nested too deep to read": "publish(signed(b'[' * 100_000 + b']' * 100_000))",
    "has data nested nearly too deep": "publish(signed(data(b'[' * 900 + b']' * 900), kind='display_data'))",
    "has a number of a million digits": "publish(signed(data(b'9' * 10**6), kind='display_data'))",
    "has numbers that are none": "publish(signed(data(b'[NaN, -Infinity, 1e999]'), kind='display_data'))",
    "has half of a surrogate pair":
        "publish(signed(b'{\"name\": \"stdout\", \"text\": \"\\\\ud800\"}'))\n"
        "publish(signed(data(b'{\"\\\\udfff\": \"\\\\ud800\"}'), kind='display_data'))",
    "has megabytes for a name": "publish(signed({'name': 'n' * (8 << 20), 'text': 'x'}))",
    "has megabytes for an error's name":
        "for _ in range(9): publish(signed({'ename': 'n' * (8 << 20), 'evalue': '', 'traceback': []}, kind='error'))",
    "has an error of other types":
        "publish(signed({'ename': [], 'evalue': {}, 'traceback': [{}, None, 1.5]}, kind='error'))",
    "has a bundle of other types":
        "publish(signed({'data': [], 'metadata': 'm', 'transient': 7}, kind='display_data'))",
    "has a bundle of two hundred thousand types":
        "publish(signed({'data': dict.fromkeys(map(str, range(200_000)), 'x'), 'metadata': {}}, kind='display_data'))",
    "updates a display that is not there": "publish(signed({'data': {}, 'transient': {'display_id': 'd'}}, kind='update_display_data'))",
    "has a state that is a mapping": "publish(signed({'execution_state': {}}, kind='status'))",
    "replies unsigned": "reply(signed({'status': 'ok'}, kind='execute_reply', signature=b''))",
    "replies with a list": "reply(signed(b'[]', kind='execute_reply'))",
    "replies with no text": "reply(signed(b'\\xff', kind='execute_reply'))",
    "replies with types of its own":
        "reply(signed({'status': 5, 'execution_count': 'many', 'ename': 1}, kind='execute_reply'))",
    "replies with an error that was none":
        "reply(signed({'status': 'error', 'ename': 'E', 'evalue': 'v', 'traceback': 'text'}, kind='execute_reply'))",
    "asks for input that nobody gives":
        "session.send(kernel.stdin_socket, 'input_request', {'prompt': 'password', 'password': True}, parent=kernel.get_parent(), ident=kernel._parent_ident[\"shell\"])",
}  # fmt: skip


def must_be_sound(cell: Cell) -> None:
    """Whatever the kernel said, a result can be written, and is of its types and its size."""
    written = json.dumps(asdict(cell), allow_nan=False, ensure_ascii=False).encode()
    assert len(written) < 3 * CellLimits().kept_bytes
    assert type(cell.count) in (int, type(None))
    for output in cell.outputs:
        assert all(type(text) is str for text in (output.kind, output.name, output.text, output.display_id))
        assert all(type(bundle) is dict for bundle in (output.data, output.metadata))
        assert all(type(line) is str for line in output.traceback)
    if cell.error is not None:
        assert all(type(text) is str for text in (cell.error.type, cell.error.message, cell.error.traceback))


async def forger(start: Start, **wanted: object) -> tuple[BoxedKernel, Talk]:
    kernel, talk = await start(**wanted)
    assert (await talk.run(FORGER, CellLimits())).ok
    return kernel, talk


async def must_be_well_or_lost(run: Callable[[str], Awaitable[Cell]], cell: Cell) -> None:
    must_be_sound(cell)
    if not cell.state_lost:
        after = await run("20 + 22")
        must_be_sound(after)
        assert after.state_lost or "42" in str(after.outputs)


async def test_what_a_cell_signs_itself_is_taken_for_its_own(start: Start) -> None:
    """Otherwise the forgeries below would fail for another reason than theirs."""
    _, talk = await forger(start)
    code = "publish(signed(hi)); reply(signed({'status': 'ok', 'execution_count': 77}, kind='execute_reply'))"
    cell = await talk.run(code, CellLimits())
    assert (cell.stdout, cell.count) == ("forged", 77)


@pytest.mark.spec("KERN-4", "KERN-5")
@pytest.mark.parametrize("code", FORGED.values(), ids=FORGED.keys())
async def test_a_message_that(start: Start, code: str) -> None:
    """… is forged is read as it must be, or costs the kernel that sent it, and nobody else."""
    kernel, talk = await forger(start)
    cell = await talk.run(code, BRIEF)
    if kernel.alive:
        await must_be_well_or_lost(lambda code: talk.run(code, BRIEF), cell)
    else:
        must_be_sound(cell)
        assert cell.state_lost


@pytest.mark.spec("KERN-5")
async def test_a_cell_that_says_it_has_ended_and_goes_on_takes_the_next_ones_time(start: Start) -> None:
    kernel, talk = await forger(start)
    code = (
        "reply(signed({'status': 'ok', 'execution_count': 1}, kind='execute_reply'))"
        "\npublish(signed({'execution_state': 'idle'}, kind='status'))\ntime.sleep(30)"
    )
    assert (await talk.run(code, CellLimits())).ok
    cell = await talk.run("1", BRIEF)
    assert cell.end in (End.TIMEOUT, End.OK)  # it was interrupted: before its turn came, or the sleeper and then it ran
    must_be_sound(cell)
    assert not kernel.alive or (await talk.run("2", BRIEF)).ok


@pytest.mark.spec("KERN-1")
async def test_outputs_made_up_for_a_later_cell_reach_no_other_kernel(start: Start) -> None:
    _, liar = await forger(start)
    _, other = await start()
    code = """
import threading
def lie():
    while True:
        for name in ('stdout', 'stderr'): publish(signed({'name': name, 'text': 'made up'}, parent=json.dumps(kernel.get_parent(), default=str).encode()))
        time.sleep(0.001)
threading.Thread(target=lie, daemon=True).start()
"""
    assert (await liar.run(code, CellLimits())).ok
    both = await asyncio.gather(
        liar.run("time.sleep(0.2)", CellLimits()),
        other.run("import time; time.sleep(0.2); print('mine')", CellLimits()),
    )
    must_be_sound(both[0])
    assert [output.text for output in both[1].outputs] == ["mine\n"]


FLOODS = {
    "messages of nobody": "while True: publish(signed(hi, parent=b'{}'))",
    "many small outputs": "while True:\n    for n in ('stdout', 'stderr'): publish(signed({'name': n, 'text': 'x'}))",
    "outputs with nothing in them": "while True: publish(signed({'data': {}}, kind='display_data'))",
    "names": "n = 'n' * (1 << 20)\nwhile True: publish(signed({'name': n + str(time.time()), 'text': 'x'}))",
    "errors": "while True: publish(signed({'ename': 'E', 'evalue': 'x' * 10**5, 'traceback': []}, kind='error'))",
    "updates": "from IPython.display import display\nshown = display(0, display_id='d')\nn = 0\n"
    "while True: n += 1; shown.update('x' * 1000 + str(n))",
    "large bundles": "while True: publish(signed({'data': {'text/plain': 'x' * (1 << 20)}}, kind='display_data'))",
    "replies": "while True: reply(signed({'status': 'ok'}, kind='execute_reply', parent=b'{}'))",
}


@pytest.mark.spec("KERN-4")
@pytest.mark.parametrize("code", FLOODS.values(), ids=FLOODS.keys())
async def test_a_flood_of(start: Start, code: str) -> None:
    """… costs the engine neither its memory nor its loop, and ends with the cell."""
    kernel, talk = await forger(start)
    before = psutil.Process().memory_info().rss
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1

    task = asyncio.ensure_future(others())
    cell = await talk.run(code, BRIEF)
    task.cancel()
    assert turns >= 5
    assert cell.end in (End.TIMEOUT, End.OUTPUT, End.KILLED, End.ERROR)
    assert psutil.Process().memory_info().rss - before < GROWTH
    await kernel.kill()


# Junk on the connections that process 1 carries: the engine's ZeroMQ reads it.
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
async def test_junk_on_a_kernels_connections_costs_that_kernel_alone(start: Start, seed: int) -> None:
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


async def test_a_second_client_in_the_box_is_no_one_to_the_engine(start: Start) -> None:
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


async def test_a_cell_that_leaves_no_descriptor_keeps_its_kernel(start: Start) -> None:
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
async def test_what_a_cell_leaves_running_counts_for_the_kernel(
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
async def test_kernels_of_one_pool_find_nothing_of_each_other(box: NamespaceSandbox) -> None:
    async with KernelPool(box, PoolConfig(warm=1)) as pool:
        first = await pool.run("ann", LEAVE)
        assert first.ok
        beside = await pool.run("bob", LOOK)
        await pool.stop("ann")
        after = await pool.run("cid", LOOK)
    keys = {first.stdout.strip()}
    for cell in (beside, after):
        found, _, key = cell.stdout.strip().partition("\n")
        assert found == "[] []", cell
        keys.add(key)
    assert len(keys) == 3


@pytest.mark.spec("KERN-6", "BOX-7")
async def test_a_machine_full_of_kernels_has_boxes_for_jobs() -> None:
    async with (
        NamespaceSandbox(NamespaceConfig(max_boxes=1)) as box,
        KernelPool(box, PoolConfig(most=3, per_agent=2, warm=1)) as pool,
    ):
        for agent, name in (("ann", "a"), ("ann", "b"), ("bob", "a")):
            assert (await pool.run(agent, "1", name=name)).ok
        with pytest.raises(SandboxError, match="2 kernels already"):
            await pool.run("ann", "1", name="c")
        with pytest.raises(Busy):
            await pool.run("bob", "1", name="b")
        for outcome in await asyncio.gather(*(box.run(Job(code="6 * 7")) for _ in range(4))):
            assert outcome.value == 42
        assert (await pool.run("bob", "1", name="a")).ok


@asynccontextmanager
async def managed(folder: Path) -> AsyncIterator[AsyncKernelManager]:
    """Jupyter's own manager, of a kernel by our provisioner."""
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
async def test_a_kernel_that_stays_after_it_was_asked_to_leave_is_ended(
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
    await asyncio.to_thread(wait_until, lambda: not marked(mark))
