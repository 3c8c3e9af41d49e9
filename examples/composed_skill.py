"""Composed skills: make one tool from a pipeline of calls, proved by a case. Run: python examples/composed_skill.py"""

import asyncio
import tempfile

from engine import Engine

PIPELINE = {
    "steps": [
        {"name": "read", "call": "file_system", "inputs": {"action": "read", "path": {"from": "/arguments/path"}}},
        {
            "name": "keep",
            "call": "scratchpad",
            "inputs": {"action": "set", "key": {"from": "/arguments/path"}, "value": {"from": "/read/content"}},
        },
    ],
    "output": {"text": ["noted: ", {"from": "/read/content"}]},
}
CASE = {
    "arguments": {"path": "a.txt"},
    "steps": {"read": {"content": "rye"}, "keep": {}},  # outputs used in place of real calls
    "asked": {"read": {"action": "read", "path": "a.txt"}, "keep": {"action": "set", "key": "a.txt", "value": "rye"}},
    "expect": "noted: rye",
}


async def main() -> None:
    skill = {"name": "note_file", "description": "Keeps the text of a file as a note.", "pipeline": PIPELINE}
    async with Engine.open(home=tempfile.mkdtemp()) as engine:
        print((await engine.call("compose_skill", skill | {"cases": [CASE]})).text)
        await engine.call("file_system", {"action": "write", "path": "bread.txt", "content": "two loaves"})
        print((await engine.call("note_file", {"path": "bread.txt"})).text)
        print((await engine.call("scratchpad", {"action": "list"})).text)


if __name__ == "__main__":
    asyncio.run(main())
