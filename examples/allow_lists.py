"""Allow-lists: what one agent may be offered and call, by name. Run: python examples/allow_lists.py"""

import asyncio
import tempfile
from pathlib import Path

from engine import Engine

MINE = """
lists:
  reporter:
    description: Reads and draws; keeps nothing.
    include: [explore]                    # every tool that says it is read-only
    tools: [image_generation]
    skills: ["report_*"]                  # also those that are learned later
    exclude: {categories: [control]}
"""


async def main(home: Path) -> None:
    async with Engine.open(home=home) as engine:
        for name in ("code_gen", "explore", "reporter"):
            given = await engine.get_tools_for_agent(name)
            print(f"{name}: {', '.join(given.tools)}")
        result = await given.tools["system_utility"](action="diagnostics")
        print(f"system_utility: {result.success}")
        denied = await engine.call("execute", {"language": "python", "code": "1"}, given.turn)
        print(denied.error.splitlines()[0])

        found = await engine.get_discovery_tools_for_agent("explore")  # three tools that stand for all of them
        print([each["name"] for each in (await found.tools["search_tools"](query="plan again")).output])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "allow_lists.yaml").write_text(MINE)
        asyncio.run(main(Path(folder)))
