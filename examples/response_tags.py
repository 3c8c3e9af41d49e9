"""Response tags: a model without tool calls uses a tool with a line of text. Run: python examples/response_tags.py"""

import asyncio
import tempfile

from engine import Engine
from engine.contract.context import CallContext
from engine.contract.result import ToolContext
from engine.contract.spec import Tag
from engine.formats.tags import TagRegistry
from engine.registry.decorate import tool
from engine.registry.static import StaticSource


@tool(tag=Tag("REMIND", r"in (\d+) minutes: (.+)", ("minutes", "what"), "REMIND: in 5 minutes: feed the cat"))
async def remind(ctx: CallContext, minutes: int, what: str) -> str:
    """Remind the user of something."""
    return f"{what}, in {minutes} minutes (asked: {ctx.user_message!r})"


async def main() -> None:
    print(TagRegistry([remind.spec]).prompt_block())  # added to the model's prompt
    answer = "I will.\nREMIND: in 10 minutes: take the bread out\nAnything else?"  # returned by the model
    async with Engine.open(home=tempfile.mkdtemp(), sources=[StaticSource("mine", [remind])], packs=False) as engine:
        answered = await engine.answer_tags(answer, context=ToolContext(user_message="the bread!"))
    print(answered.display)
    for call, result in answered.calls:
        print(f"{call.name}: {result.text}")


if __name__ == "__main__":
    asyncio.run(main())
