"""`vision_analysis` and `image_generation` against a real HTTP server that speaks the OpenAI protocol."""

import base64
import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from builtin_tools.image_generation import image_generation
from builtin_tools.vision_analysis import MAX_BYTES, media_type_of, vision_analysis
from engine.agent.endpoint import ModelEndpoint
from engine.agent.images import OpenAIImages
from engine.agent.vision import ModelVision
from engine.contract.context import CallContext
from engine.contract.failure import FailureClass, ToolFailure
from tests.builtin_tools.http_server import Answer, Seen, Server, reply, serving


def chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


# One red pixel: https://www.w3.org/TR/png-3/
PNG = (
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", bytes.fromhex("00000001000000010802000000"))
    + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0"))
    + chunk(b"IEND", b"")
)


def answering(make: Callable[[dict[str, Any]], dict[str, Any]]) -> Answer:
    def answer(handler: BaseHTTPRequestHandler, seen: Seen) -> None:
        body = json.dumps(make(json.loads(seen.body))).encode()
        reply(handler, 200, body, {"Content-Type": "application/json"})

    return answer


def says(text: str) -> Answer:
    """A chat completion in one piece, or as a stream where that is asked for."""

    def answer(handler: BaseHTTPRequestHandler, seen: Seen) -> None:
        asked = json.loads(seen.body)
        base = {"id": "1", "created": 1, "model": asked["model"]}
        if asked.get("stream"):
            delta = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
            end = {"index": 0, "delta": {}, "finish_reason": "stop"}
            events = [{**base, "object": "chat.completion.chunk", "choices": [each]} for each in (delta, end)]
            lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
            reply(handler, 200, lines.encode(), {"Content-Type": "text/event-stream"})
            return
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        body = json.dumps({**base, "object": "chat.completion", "choices": [choice]}).encode()
        reply(handler, 200, body, {"Content-Type": "application/json"})

    return answer


def with_vision(ctx: CallContext, server: Server) -> CallContext:
    return replace(ctx, vision=ModelVision(ModelEndpoint("openai", "seer", server.url("/v1"), "key", 10)))


def with_images(ctx: CallContext, server: Server) -> CallContext:
    return replace(ctx, images=OpenAIImages(ModelEndpoint("openai", "painter", server.url("/v1"), "key", 10)))


@pytest.mark.spec("TOOL-13")
async def test_the_model_is_shown_the_very_bytes_and_asked_the_question(ctx: CallContext) -> None:
    ctx.workspace.write("plots/red.png", PNG)
    with serving({"/v1/chat/completions": says("It is red.")}) as server:
        produced = await vision_analysis.run(
            with_vision(ctx, server), {"path": "plots/red.png", "question": "Which colour?"}
        )
        asked = json.loads(server.seen[0].body)
    assert produced.message == "It is red."
    assert produced.value == {"path": "plots/red.png", "answer": "It is red."}
    parts = asked["messages"][-1]["content"]
    assert {"type": "text", "text": "Which colour?"} in parts
    image = next(part["image_url"]["url"] for part in parts if part["type"] == "image_url")
    assert image == "data:image/png;base64," + base64.b64encode(PNG).decode()


@pytest.mark.spec("TOOL-13")
async def test_what_is_no_image_is_refused_before_the_model_is_asked(ctx: CallContext) -> None:
    ctx.workspace.write("paper.png", b"%PDF-1.7 not a picture")
    with serving({}) as server:
        with pytest.raises(ToolFailure, match="is not a PNG, JPEG, GIF or WebP image") as caught:
            await vision_analysis.run(with_vision(ctx, server), {"path": "paper.png"})
        assert server.seen == []
    assert not caught.value.may_have_started


@pytest.mark.parametrize("path", ["../red.png", "/etc/hostname", "gone.png", "."])
async def test_no_image_outside_the_workspace_is_shown(ctx: CallContext, path: str) -> None:
    (ctx.workspace.root.parent / "red.png").write_bytes(PNG)
    with serving({}) as server:
        with pytest.raises(ToolFailure) as caught:
            await vision_analysis.run(with_vision(ctx, server), {"path": path})
        assert server.seen == []
    assert caught.value.failure_class is FailureClass.DIAGNOSTIC


async def test_an_image_too_large_for_a_model_is_refused_before_it_is_sent(ctx: CallContext) -> None:
    with (ctx.workspace.root / "huge.png").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with serving({}) as server, pytest.raises(ToolFailure, match="more than the"):
        await vision_analysis.run(with_vision(ctx, server), {"path": "huge.png"})


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a..", "image/gif"),
        (b"RIFF\1\2\3\4WEBPVP8 ", "image/webp"),
        (b"RIFF\1\2\3\4WAVEfmt ", None),
        (b"<svg/>", None),
        (b"", None),
    ],
)
def test_an_image_is_known_by_its_signature(data: bytes, kind: str | None) -> None:
    assert media_type_of(data) == kind


@pytest.mark.spec("TOOL-13")
async def test_an_image_is_drawn_into_the_workspace(ctx: CallContext) -> None:
    picture = {"created": 1, "data": [{"b64_json": base64.b64encode(PNG).decode()}]}
    with serving({"/v1/images/generations": answering(lambda _: picture)}) as server:
        produced = await image_generation.run(
            with_images(ctx, server), {"prompt": "a red dot", "path": "art/dot.png", "size": "1536x1024"}
        )
        asked = json.loads(server.seen[0].body)
    assert ctx.workspace.read("art/dot.png") == PNG
    assert produced.side_effects == ("created:art/dot.png",)
    assert (asked["model"], asked["prompt"], asked["size"]) == ("painter", "a red dot", "1536x1024")


@pytest.mark.spec("TOOL-13")
@pytest.mark.parametrize("path", ["../dot.png", "dot.jpg", "/tmp/dot.png"])
async def test_nothing_is_paid_for_an_image_that_could_not_be_saved(ctx: CallContext, path: str) -> None:
    with serving({}) as server:
        with pytest.raises(ToolFailure):
            await image_generation.run(with_images(ctx, server), {"prompt": "a red dot", "path": path})
        assert server.seen == []


async def test_an_answer_without_a_picture_saves_nothing(ctx: CallContext) -> None:
    empty = {"created": 1, "data": [{"b64_json": base64.b64encode(b"GIF89a").decode()}]}
    with serving({"/v1/images/generations": answering(lambda _: empty)}) as server, pytest.raises(ToolFailure):
        await image_generation.run(with_images(ctx, server), {"prompt": "a red dot"})
    assert list(ctx.workspace.root.glob("*")) == []


@pytest.mark.spec("LIST-2")
@pytest.mark.parametrize("tool", [vision_analysis, image_generation])
async def test_without_a_client_both_refuse_and_name_the_setting(ctx: CallContext, tool: Any) -> None:
    with pytest.raises(ToolFailure, match=r"\[(vision|image)\]") as caught:
        await tool.run(ctx, {"path": "a.png", "prompt": "x"} if tool is image_generation else {"path": "a.png"})
    assert (caught.value.failure_class, caught.value.end) == (FailureClass.FATAL, "refused")


@pytest.mark.spec("LIST-2")
def test_both_are_gated_by_what_they_need() -> None:
    assert vision_analysis.spec.features == ("vision",)
    assert image_generation.spec.requires == ("image_client",)
