"""Allow-lists: limit the tools that one agent is offered and may call. Run: python examples/allow_lists.py"""

import asyncio
import tempfile
from pathlib import Path

from engine import Engine

MINE = """
lists:
  reporter:
    description: Reads and draws, but stores nothing.
    include: [explore]                    # all tools that are declared read-only
    tools: [image_generation]
    skills: ["report_*"]                  # includes skills that are created later
    exclude: {categories: [control]}
"""


async def main(home: Path) -> None:
    async with Engine.open(home=home) as engine:
        for name in ("code_gen", "explore", "reporter"):
            agent = await engine.get_tools_for_agent(name)
            print(f"{name}: {', '.join(agent.tools)}")
        result = await agent.tools["system_utility"](action="diagnostics")
        print(f"system_utility: {result.success}")
        denied = await engine.call("execute", {"language": "python", "code": "1"}, agent.turn)
        print(denied.error.splitlines()[0])

        discovery = await engine.get_discovery_tools_for_agent("explore")  # three tools that find and call all others
        print([each["name"] for each in (await discovery.tools["search_tools"](query="plan again")).output])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "allow_lists.yaml").write_text(MINE)
        asyncio.run(main(Path(folder)))
