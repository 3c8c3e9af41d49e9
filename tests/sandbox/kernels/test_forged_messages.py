"""Messages of a kernel are untrusted, since its code has the key: forged, endless and false messages."""

import asyncio

import psutil
import pytest

from sandbox.contract import End
from sandbox.kernels.spec import CellLimits
from tests.sandbox.kernels.forger import BRIEF, forger, must_be_sound, must_be_well_or_lost
from tests.sandbox.kernels.starting import Start

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("KERN-1")]

GROWTH = 96 << 20  # bytes by which the engine may grow during a flood
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


async def test_messages_that_a_cell_signs_count_as_its_own(start: Start) -> None:
    """Check that forging works, because otherwise the forgeries below could fail for another reason."""
    _, talk = await forger(start)
    code = "publish(signed(hi)); reply(signed({'status': 'ok', 'execution_count': 77}, kind='execute_reply'))"
    cell = await talk.run(code, CellLimits())
    assert (cell.stdout, cell.count) == ("forged", 77)


@pytest.mark.spec("KERN-4", "KERN-5")
@pytest.mark.parametrize("code", FORGED.values(), ids=FORGED.keys())
async def test_a_message_that(start: Start, code: str) -> None:
    """Forge a message: it is handled correctly, or only the kernel that sent it is ended."""
    kernel, talk = await forger(start)
    cell = await talk.run(code, BRIEF)
    if kernel.alive:
        await must_be_well_or_lost(lambda code: talk.run(code, BRIEF), cell)
    else:
        must_be_sound(cell)
        assert cell.state_lost


@pytest.mark.spec("KERN-5")
async def test_a_cell_that_falsely_reports_its_end_uses_the_next_cells_time(start: Start) -> None:
    kernel, talk = await forger(start)
    code = (
        "reply(signed({'status': 'ok', 'execution_count': 1}, kind='execute_reply'))"
        "\npublish(signed({'execution_state': 'idle'}, kind='status'))\ntime.sleep(30)"
    )
    assert (await talk.run(code, CellLimits())).ok
    cell = await talk.run("1", BRIEF)
    assert cell.end in (End.TIMEOUT, End.OK)  # it was interrupted while it waited, or ran after the sleeping cell was
    must_be_sound(cell)
    assert not kernel.alive or (await talk.run("2", BRIEF)).ok


@pytest.mark.spec("KERN-1")
async def test_outputs_forged_for_a_later_cell_reach_no_other_kernel(start: Start) -> None:
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
    """Flood the engine with messages: neither its memory nor its event loop is affected, and the flood ends."""
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
