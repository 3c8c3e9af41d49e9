"""The registry: keep an operator's tools, prompts and agents in files. Run: python examples/file_registry.py"""

import asyncio
import tempfile

from engine import Engine
from engine.app.settings import Settings

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def count_words(text: str) -> int:  # the adapter; usually part of your own package
    return len(text.split())


async def main() -> None:
    settings = Settings.model_validate(
        {"registry": {"adapter_prefixes": ["file_registry"]}}
    )  # the same settings as [registry] in config.toml
    with tempfile.TemporaryDirectory() as home:
        async with Engine.open(home=home, settings=settings) as engine:
            await engine.registries.register_tool(
                {"spec_id": "count_words", "params_schema": TEXT, "adapter_path": "file_registry:count_words"}
            )
            await engine.registries.register_prompt(
                {"spec_id": "briefly", "template": "Say {what} in {limit} words.", "variables": ["what", "limit"]}
            )
            await engine.registries.register_agent({"spec_id": "editor", "allowed_tools": ["count_words"]})
        async with Engine.open(home=home, settings=settings) as engine:  # or another process
            turn = await engine.turn_of("editor")
            print([spec.name for spec in await engine.get_active_tool_definitions(turn)])
            print((await engine.call("count_words", {"text": "one two three"}, turn)).output)
            print((await engine.registries.prompt("briefly")).render({"what": "hello"}))
            await engine.registry.disable("count_words")
            print((await engine.call("count_words", {"text": "one"}, turn)).error)


if __name__ == "__main__":
    asyncio.run(main())
