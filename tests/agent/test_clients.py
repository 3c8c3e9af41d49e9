"""The vision and image clients with an OpenAI-compatible HTTP server, and errors about missing keys."""

import asyncio
import base64

import pytest
from pydantic_ai.messages import ModelRequest, UserPromptPart

from engine.agent.clients.endpoint import ModelEndpoint
from engine.agent.clients.images import OpenAIImages
from engine.agent.clients.model import ModelClient, ModelError
from engine.agent.clients.vision import ModelVision
from engine.contract.failure import ConfigError, FailureClass, ToolFailure
from tests.agent.scripted_model import PNG, fails, says, serving, shows_a_page


@pytest.mark.spec("TOOL-13")
async def test_an_image_and_a_question_are_sent_to_the_vision_model() -> None:
    async with serving(says("One pixel.")) as server:
        client = ModelVision(ModelEndpoint("openai", "eyes", server.base_url))
        assert await client.describe("What is it?", [(PNG, "image/png")]) == "One pixel."
        content = server.requests[0]["messages"][0]["content"]
    assert content[0] == {"type": "text", "text": "What is it?"}
    assert content[1]["image_url"]["url"] == "data:image/png;base64," + base64.b64encode(PNG).decode()


async def test_a_failing_vision_model_gives_a_fatal_failure_with_a_remedy() -> None:
    async with serving(fails(404, "no such model")) as server:
        with pytest.raises(ToolFailure, match="Check the model's name") as caught:
            await ModelVision(ModelEndpoint("openai", "eyes", server.base_url)).describe("?", [(PNG, "image/png")])
    assert caught.value.failure_class is FailureClass.FATAL


@pytest.mark.spec("TOOL-13")
async def test_a_generated_image_is_returned_as_png() -> None:
    async with serving() as server:
        assert await OpenAIImages(ModelEndpoint("openai", "brush", server.base_url)).generate("a dot", "256x256") == PNG
        asked = server.requests[0]
    assert (asked["model"], asked["prompt"], asked["size"]) == ("brush", "a dot", "256x256")
    assert asked["response_format"] == "b64_json"


async def test_models_that_return_only_base64_are_asked_for_png_with_their_own_parameter() -> None:
    async with serving() as server:
        await OpenAIImages(ModelEndpoint("openai", "gpt-image-1", server.base_url)).generate("a dot", "1024x1024")
        assert server.requests[0]["output_format"] == "png"
        assert "response_format" not in server.requests[0]


@pytest.mark.parametrize("answer", [None, base64.b64encode(b"GIF89a").decode(), "not base64!"])
async def test_an_answer_that_is_not_a_png_is_rejected(answer: str | None) -> None:
    async with serving() as server:
        server.image = answer
        with pytest.raises(ToolFailure, match="Configure one that returns PNG"):
            await OpenAIImages(ModelEndpoint("openai", "brush", server.base_url)).generate("a dot", "256x256")


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["openai", "anthropic", "google"])
def test_a_provider_without_a_key_is_a_configuration_error_that_names_the_setting(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ConfigError, match="KNACKBOX_MODEL_API_KEY"):
        ModelClient(ModelEndpoint(provider, "some-model"))  # type: ignore[arg-type]


@pytest.mark.spec("LOOP-1")
@pytest.mark.parametrize(
    "provider", ["openai", *(pytest.param(each, marks=pytest.mark.slow) for each in ("anthropic", "google"))]
)
async def test_every_provider_opens_and_closes_with_a_key(provider: str) -> None:
    client = ModelClient(ModelEndpoint(provider, "some-model", api_key="k"))  # type: ignore[arg-type]
    async with client as opened:
        assert opened is client
        assert (opened.endpoint.provider, opened._http.is_closed) == (provider, False)
    assert client._http.is_closed


@pytest.mark.spec("LOOP-1")
@pytest.mark.parametrize("streamed", [True, False])
async def test_a_web_page_instead_of_a_reply_is_reported_as_such(streamed: bool) -> None:
    async with serving(shows_a_page()) as server, ModelClient(ModelEndpoint("openai", "m", server.base_url)) as client:
        with pytest.raises(ModelError) as caught:
            await client.ask([ModelRequest(parts=[UserPromptPart("hi")])], on_text=print if streamed else None)
    said = str(caught.value)
    assert "the server answered with a web page (text/html), not with a model's reply" in said
    assert "Check base_url" in said


def test_the_repr_of_an_endpoint_does_not_contain_the_key() -> None:
    assert "sk-1" not in repr(ModelEndpoint("openai", "m", api_key="sk-1"))


@pytest.mark.spec("LOOP-1")
@pytest.mark.slow
@pytest.mark.parametrize("provider", ["openai", "anthropic", "google"])
async def test_a_key_in_the_environment_is_not_sent_to_another_server(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(variable, "secret-of-the-environment")
    received: list[bytes] = []

    async def record(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(record, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, ModelClient(ModelEndpoint(provider, "m", url)) as client:  # type: ignore[arg-type]
        with pytest.raises(ModelError):
            await client.ask([ModelRequest(parts=[UserPromptPart("hi")])])
    assert received
    assert all(b"secret-of-the-environment" not in head for head in received)
