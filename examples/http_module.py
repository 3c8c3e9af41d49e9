"""Modules: serve a tool over HTTP in another process, and call it. Run: python examples/http_module.py"""

import asyncio
import json
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from engine import Engine
from engine.app.settings import Settings

CITY = {"name": "city", "type": "string", "description": "Where.", "required": True}
TOOL = {"name": "weather.now", "description": "Say how the weather is in a city.", "parameters": [CITY]}


class Module(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer({"module_name": "weather", "tools": [TOOL]})

    def do_POST(self) -> None:
        call = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.answer({"tool_name": "weather.now", "success": True, "result": f"Sunny in {call['arguments']['city']}."})

    def answer(self, value: dict[str, object]) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())


async def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Module)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    weather = {"weather": f"http://127.0.0.1:{server.server_port}"}
    settings = Settings.model_validate({"modules": {"module_services": weather}})
    async with Engine.open(home=tempfile.mkdtemp(), settings=settings) as engine:
        print((await engine.call("weather.now", {"city": "Oslo"})).message)


asyncio.run(main())
