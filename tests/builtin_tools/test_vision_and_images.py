"""`vision_analysis` and `image_generation` against a real HTTP server that speaks the OpenAI protocol."""

import base64
import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from builtin_tools.image_generation import choose_client, image_generation, with_client_choices
from builtin_tools.vision_analysis import MAX_BYTES, media_type_of, vision_analysis
from engine import Engine
from engine.agent.clients.endpoint import ModelEndpoint
from engine.agent.clients.images import OpenAIImages
from engine.agent.clients.txt2img import Txt2ImgImages
from engine.agent.clients.vision import ModelVision
from engine.app.models import images_of
from engine.app.settings import Settings
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


def chat_answer(text: str) -> Answer:
    """Answer with a chat completion, streamed if the request asks for it."""

    def answer(handler: BaseHTTPRequestHandler, seen: Seen) -> None:
        request = json.loads(seen.body)
        base = {"id": "1", "created": 1, "model": request["model"]}
        if request.get("stream"):
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
    painter = OpenAIImages(ModelEndpoint("openai", "painter", server.url("/v1"), "key", 10))
    return replace(ctx, images={"default": painter})


def with_sdxl(ctx: CallContext, server: Server) -> CallContext:
    return replace(ctx, images={"sdxl": Txt2ImgImages(server.url(""))})


def refusing(status: int, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler, seen: Seen) -> None:
        body = json.dumps({"error": {"message": "not now"}}).encode()
        reply(handler, status, body, {"Content-Type": "application/json", **headers})

    return answer


@pytest.mark.spec("TOOL-13")
async def test_the_model_receives_the_exact_bytes_and_the_question(ctx: CallContext) -> None:
    ctx.workspace.write("plots/red.png", PNG)
    with serving({"/v1/chat/completions": chat_answer("It is red.")}) as server:
        produced = await vision_analysis.run(
            with_vision(ctx, server), {"path": "plots/red.png", "question": "Which colour?"}
        )
        request = json.loads(server.seen[0].body)
    assert produced.message == "It is red."
    assert produced.value == {"path": "plots/red.png", "answer": "It is red."}
    parts = request["messages"][-1]["content"]
    assert {"type": "text", "text": "Which colour?"} in parts
    image = next(part["image_url"]["url"] for part in parts if part["type"] == "image_url")
    assert image == "data:image/png;base64," + base64.b64encode(PNG).decode()


@pytest.mark.spec("TOOL-13")
async def test_a_file_that_is_not_an_image_is_refused_before_it_is_sent(ctx: CallContext) -> None:
    ctx.workspace.write("paper.png", b"PK\x03\x04 not a picture")
    with serving({}) as server:
        with pytest.raises(ToolFailure, match="is not a PNG, JPEG, GIF or WebP image or a PDF file") as caught:
            await vision_analysis.run(with_vision(ctx, server), {"path": "paper.png"})
        assert server.seen == []
    assert not caught.value.may_have_started


@pytest.mark.parametrize("path", ["../red.png", "/etc/hostname", "gone.png", "."])
async def test_no_image_outside_the_workspace_is_sent(ctx: CallContext, path: str) -> None:
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
def test_an_image_is_recognized_by_its_signature(data: bytes, kind: str | None) -> None:
    assert media_type_of(data) == kind


@pytest.mark.spec("TOOL-13")
async def test_an_image_is_saved_in_the_workspace(ctx: CallContext) -> None:
    picture = {"created": 1, "data": [{"b64_json": base64.b64encode(PNG).decode()}]}
    with serving({"/v1/images/generations": answering(lambda _: picture)}) as server:
        produced = await image_generation.run(
            with_images(ctx, server), {"prompt": "a red dot", "path": "art/dot.png", "size": "1536x1024"}
        )
        request = json.loads(server.seen[0].body)
    assert ctx.workspace.read("art/dot.png") == PNG
    assert produced.side_effects == ("created:art/dot.png",)
    assert (request["model"], request["prompt"], request["size"]) == ("painter", "a red dot", "1536x1024")


@pytest.mark.spec("TOOL-13")
@pytest.mark.parametrize("path", ["../dot.png", "dot.jpg", "/tmp/dot.png"])
async def test_nothing_is_paid_for_an_image_that_could_not_be_saved(ctx: CallContext, path: str) -> None:
    with serving({}) as server:
        with pytest.raises(ToolFailure):
            await image_generation.run(with_images(ctx, server), {"prompt": "a red dot", "path": path})
        assert server.seen == []


async def test_an_answer_without_an_image_saves_nothing(ctx: CallContext) -> None:
    empty = {"created": 1, "data": [{"b64_json": base64.b64encode(b"GIF89a").decode()}]}
    with serving({"/v1/images/generations": answering(lambda _: empty)}) as server, pytest.raises(ToolFailure):
        await image_generation.run(with_images(ctx, server), {"prompt": "a red dot"})
    assert list(ctx.workspace.root.glob("*")) == []


@pytest.mark.spec("TOOL-13", "FAIL-1")
@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_provider_is_retryable(ctx: CallContext, status: int) -> None:
    ctx.workspace.write("red.png", PNG)
    busy = refusing(status, **{"Retry-After": "7"})
    with serving({"/v1/chat/completions": busy, "/v1/images/generations": busy, "/sdapi/v1/txt2img": busy}) as server:
        for tool, bound, arguments in (
            (vision_analysis, with_vision(ctx, server), {"path": "red.png"}),
            (image_generation, with_images(ctx, server), {"prompt": "a red dot"}),
            (image_generation, with_sdxl(ctx, server), {"prompt": "a red dot"}),
        ):
            before = len(server.seen)
            with pytest.raises(ToolFailure) as caught:
                await tool.run(bound, arguments)
            assert caught.value.failure_class is FailureClass.RETRYABLE
            assert caught.value.retry_after == 7
            assert (
                not caught.value.may_have_started
            )  # so that the pipeline may repeat even a call that is not idempotent
            assert len(server.seen) == before + 1  # retries are made by the pipeline


@pytest.mark.spec("TOOL-13", "FAIL-1")
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, FailureClass.DIAGNOSTIC),
        (401, FailureClass.FATAL),
        (404, FailureClass.FATAL),
        (500, FailureClass.RETRYABLE),
    ],
)
async def test_each_error_status_of_a_provider_has_its_failure_class(
    ctx: CallContext, status: int, expected: FailureClass
) -> None:
    ctx.workspace.write("red.png", PNG)
    routes = {"/v1/chat/completions": refusing(status), "/sdapi/v1/txt2img": refusing(status)}
    with serving(routes) as server:
        for tool, bound, arguments in (
            (vision_analysis, with_vision(ctx, server), {"path": "red.png"}),
            (image_generation, with_sdxl(ctx, server), {"prompt": "x"}),
        ):
            with pytest.raises(ToolFailure) as caught:
                await tool.run(bound, arguments)
            assert caught.value.failure_class is expected
            assert caught.value.may_have_started


def drawn(picture: bytes, prefix: str = "") -> Answer:
    encoded = prefix + base64.b64encode(picture).decode()
    return answering(lambda _: {"images": [encoded], "parameters": {}, "info": ""})


@pytest.mark.spec("TOOL-13")
@pytest.mark.parametrize("prefix", ["", "data:image/png;base64,"])
async def test_a_local_sdxl_server_is_called_with_the_txt2img_protocol(ctx: CallContext, prefix: str) -> None:
    with serving({"/sdapi/v1/txt2img": drawn(PNG, prefix)}) as server:
        sdxl = Txt2ImgImages(server.url("/"), model="sd_xl_base_1.0", api_key="ada:secret")
        bound = replace(ctx, images={"sdxl": sdxl})
        await image_generation.run(bound, {"prompt": "a red dot", "path": "dot.png", "size": "1216x832"})
        request = server.seen[0]
    assert ctx.workspace.read("dot.png") == PNG
    body = json.loads(request.body)
    assert (body["prompt"], body["width"], body["height"]) == ("a red dot", 1216, 832)
    assert body["override_settings"] == {"sd_model_checkpoint": "sd_xl_base_1.0"}
    assert request.headers["authorization"] == f"Basic {base64.b64encode(b'ada:secret').decode()}"
    assert ctx.audit == {"image_client": "sdxl"}


NO_PICTURES = [b"", b"[]", b'{"images": []}', b'{"images": [1]}', b'{"images": ["R0lG"]}', b"<html>"]


@pytest.mark.parametrize("body", NO_PICTURES)
async def test_a_local_server_that_answers_without_an_image_saves_nothing(ctx: CallContext, body: bytes) -> None:
    routes: dict[str, Answer] = {"/sdapi/v1/txt2img": lambda handler, _: reply(handler, 200, body)}
    with serving(routes) as server, pytest.raises(ToolFailure, match="answered with"):
        await image_generation.run(with_sdxl(ctx, server), {"prompt": "x"})
    assert list(ctx.workspace.root.glob("*")) == []


SEVERAL = {
    "image": {"name": "gpt-image-1", "api_key": "k"},
    "image_gen_clients": {
        "sdxl": {"protocol": "txt2img", "base_url": "http://127.0.0.1:7860"},
        "small": {"name": "mine", "base_url": "http://127.0.0.1:1", "sizes": ["256x256", "512x512"]},
    },
}


@pytest.mark.spec("TOOL-13", "LIST-2")
def test_names_and_sizes_come_from_the_configured_clients() -> None:
    clients = images_of(Settings.model_validate(SEVERAL))
    assert list(clients) == ["default", "sdxl", "small"]
    assert clients["small"].sizes == ("256x256", "512x512")
    properties = with_client_choices(clients).spec.parameters["properties"]
    assert properties["client"]["enum"] == ["default", "sdxl", "small"]
    assert set(properties["size"]["enum"]) == {size for client in clients.values() for size in client.sizes}
    assert "small: 256x256, 512x512" in properties["size"]["description"]
    only = with_client_choices({"small": clients["small"]}).spec.parameters["properties"]
    assert only["size"]["enum"] == ["256x256", "512x512"]
    assert "client" not in only
    assert choose_client(clients, "", "") == "default"
    assert choose_client(clients, "", "256x256") == "small"
    assert choose_client(clients, "sdxl", "1216x832") == "sdxl"
    with pytest.raises(ToolFailure, match="small supports 256x256, 512x512"):
        choose_client(clients, "small", "1024x1024")
    with pytest.raises(ToolFailure, match="Use one of: default, sdxl, small"):
        choose_client(clients, "dalle", "")


@pytest.mark.spec("LIST-2")
async def test_image_generation_is_listed_when_any_image_client_is_configured(tmp_path: Path) -> None:
    sdxl = {"protocol": "txt2img", "base_url": "http://127.0.0.1:1", "sizes": ["64x64"]}
    settings = Settings.model_validate({"image_gen_clients": {"sdxl": sdxl}})
    async with Engine.open(tmp_path, settings=settings, environ={}) as engine:
        (spec,) = [each for each in await engine.get_active_tool_definitions() if each.name == "image_generation"]
        assert spec.parameters["properties"]["size"]["enum"] == ["64x64"]
        wrong = await engine.call("image_generation", {"prompt": "a dot", "size": "65x65"})
        assert "64x64" in wrong.error


@pytest.mark.spec("TOOL-13")
@pytest.mark.parametrize(
    "wrong",
    [
        {"image_gen_clients": {"a": {}}},
        {"image_gen_clients": {"a": {"protocol": "txt2img"}}},
        {"image_gen_clients": {"a": {"name": "m", "sizes": ["big"]}}},
        {"image_gen_clients": {"no/name": {"name": "m"}}},
        {"image": {"name": "m"}, "image_gen_clients": {"default": {"name": "m"}}},
    ],
)
def test_an_invalid_image_client_is_a_configuration_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        Settings.model_validate(wrong)


@pytest.mark.spec("LIST-2")
@pytest.mark.parametrize("tool", [vision_analysis, image_generation])
async def test_without_a_client_both_tools_refuse_and_name_the_setting(ctx: CallContext, tool: Any) -> None:
    with pytest.raises(ToolFailure, match=r"\[(vision|image)\]") as caught:
        await tool.run(ctx, {"path": "a.png", "prompt": "x"} if tool is image_generation else {"path": "a.png"})
    assert (caught.value.failure_class, caught.value.end) == (FailureClass.FATAL, "refused")


@pytest.mark.spec("LIST-2")
def test_both_tools_declare_what_they_need() -> None:
    assert vision_analysis.spec.features == ("vision",)
    assert image_generation.spec.requires == ("image_client",)
