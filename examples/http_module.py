"""A tool that lives elsewhere: a module served over HTTP, and used. Run: python examples/http_module.py"""

import asyncio
import json
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from engine import Engine
from engine.app.settings import ModuleSettings, Settings

CITY = {"name": "city", "type": "string", "description": "Where.", "required": True}
TOOL = {"name": "weather.now", "description": "Say how the weather is in a city.", "parameters": [CITY]}


class Module(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer({"module_name": "weather", "tools": [TOOL]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = f"Sunny in {asked['arguments']['city']}, {asked['user_id']}."
        self.answer({"tool_name": asked["tool_name"], "success": True, "result": said})

    def answer(self, value: dict[str, Any]) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())


async def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Module)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    modules = ModuleSettings(module_services={"weather": f"http://127.0.0.1:{server.server_port}"})
    async with Engine.open(home=tempfile.mkdtemp(), settings=Settings(modules=modules)) as engine:
        print((await engine.call("weather.now", {"city": "Oslo"})).message)


asyncio.run(main())
