"""A scripted model in a process of its own, which can be killed: a real server that fails in real ways.

At some rounds of the long run it fails, once each. It is killed before it responds or within a stream, hangs until the
client gives up, ends a stream early, or answers 429 for a while. Its folder has a file for each fault that has happened,
so that a restarted server does not fail again, and the latest request of the run.
"""

import asyncio
import itertools
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.agent.long_script import ROUNDS, LongScript
from tests.agent.run_script import Call, Script, rounds_of, task_of
from tests.agent.scripted_model import Scripted, ScriptedModel, app_of

REPOSITORY = Path(__file__).parents[2]
READY_S = 120.0
PAUSE_S = 0.01
BEFORE, HANGS, HALF, WITHIN, BUSY = "killed before", "hangs", "half a stream", "killed within", "429"
FEW = {6: BEFORE, 14: HANGS, 21: HALF, 30: WITHIN, 38: BUSY}
MANY = {at: (BEFORE, HANGS, HALF, WITHIN)[at // 2 % 4] for at in range(2, ROUNDS, 2)} | {25: BUSY}

Faults = Mapping[int, str]  # the rounds of the run at which the model fails, and how


class FailingModel:
    """Answers as the script says, and fails at some rounds of the run with the message `message`."""

    def __init__(self, folder: Path, faults: Faults, busy_s: float, message: str, script: Scripted) -> None:
        self._folder = folder
        self._faults = faults
        self._busy_s = busy_s
        self._message = message
        # Other numbers than those of a server before this one, because a provider gives each call an id of its own.
        self._model = ScriptedModel([script], _ids=itertools.count(os.getpid() * 1000))
        self.app = app_of(self._model)
        self.app.router.routes.insert(0, Route("/v1/chat/completions", self._chat, methods=["POST"]))

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        if task_of(body) != self._message:
            return await self._model.chat(request)
        self._store(body)
        at = len(rounds_of(body["messages"]))
        fault = self._faults.get(at, "")
        if not fault or not self._fails(f"{at} {fault}", self._busy_s if fault == BUSY else 0.0):
            return await self._model.chat(request)
        if fault == BUSY:
            return JSONResponse({"error": {"message": "Too many requests."}}, 429, {"Retry-After": "1"})
        if fault == HANGS:
            await asyncio.Event().wait()
        if fault == BEFORE:
            os.kill(os.getpid(), signal.SIGKILL)
        response = await self._model.chat(request)
        assert isinstance(response, StreamingResponse)
        return StreamingResponse(self._half(response, killed=fault == WITHIN), media_type="text/event-stream")

    def _fails(self, name: str, lasts_s: float) -> bool:
        """Return whether a fault happens for the first time, or for less than so many seconds."""
        file = self._folder / name
        if not file.exists():
            file.write_text(str(time.time()))
            return True
        return time.time() < float(file.read_text()) + lasts_s

    def _store(self, body: dict[str, Any]) -> None:
        new = self._folder / "new.json"
        new.write_text(json.dumps(body))
        new.replace(self._folder / "latest.json")

    @staticmethod
    async def _half(response: StreamingResponse, *, killed: bool) -> AsyncIterator[Any]:
        async for chunk in response.body_iterator:
            yield chunk
            break
        if killed:
            await asyncio.sleep(PAUSE_S)  # so that the half is sent
            os.kill(os.getpid(), signal.SIGKILL)


@asynccontextmanager
async def failing_model(
    folder: Path, faults: Faults, busy_s: float, message: str, rounds: Sequence[Sequence[Call]] = ()
) -> AsyncIterator[str]:
    """Serve the model in a process, which is started again whenever it was killed. Yields its base URL.

    Args:
        folder: Where it notes its faults.
        faults: Its faults.
        busy_s: How long it answers 429.
        message: The message of the run that it fails in.
        rounds: The calls that it makes; by default those of the long run.
    """
    with socket.create_server(("127.0.0.1", 0)) as chosen:
        port = chosen.getsockname()[1]
    given = [str(folder), json.dumps(faults), str(busy_s), message, str(port), json.dumps(rounds)]
    command = [sys.executable, "-m", "tests.agent.model_process", *given]

    async def keep_running() -> None:
        while True:
            process = await asyncio.create_subprocess_exec(*command, cwd=REPOSITORY)
            try:
                if await process.wait() != -signal.SIGKILL:
                    return
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()

    running = asyncio.create_task(keep_running())
    try:
        async with asyncio.timeout(READY_S):
            while not await _listens(port):
                assert not running.done()
                await asyncio.sleep(PAUSE_S)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def main() -> None:
    folder, faults, busy_s, message, port, rounds = sys.argv[1:]
    plan = {int(at): fault for at, fault in json.loads(faults).items()}
    script = Script(json.loads(rounds)) if json.loads(rounds) else LongScript()
    model = FailingModel(Path(folder), plan, float(busy_s), message, script)
    uvicorn.run(model.app, host="127.0.0.1", port=int(port), log_level="critical", lifespan="off")


if __name__ == "__main__":
    main()
