"""The peer: a Starlette server that starts ``python -c`` for each request, without any isolation.

It runs at most four processes per processor at the same time. Without this limit a thousand clients would start a
thousand interpreters, and the peer would be even slower.
"""

import asyncio
import os
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

_AT_ONCE = asyncio.Semaphore(4 * (os.cpu_count() or 1))


async def call(request: Request) -> JSONResponse:
    """Run the code of the request."""
    body = await request.json()
    async with _AT_ONCE:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", f"print({body['arguments']['code']})", stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await process.communicate()
    return JSONResponse({"success": process.returncode == 0, "message": printed.decode()})


if __name__ == "__main__":
    app = Starlette(routes=[Route("/api/call", call, methods=["POST"])])
    uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False, backlog=2048)
