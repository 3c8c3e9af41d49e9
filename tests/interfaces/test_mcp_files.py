"""An MCP client gets images and files that calls created, and can read no other files."""

import base64
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import BlobResourceContents, ImageContent, ResourceLink, TextResourceContents

from engine.interfaces.mcp.files import IMAGE_BYTES, MAX_LINKS, MAX_READABLE, PAGE, LinkedFiles
from engine.stores.workspace import FolderWorkspace
from tests.interfaces.test_mcp_start import HELLO, serving

pytestmark = pytest.mark.spec("FACE-21")

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "outputs").mkdir()
    return tmp_path


@pytest.fixture
def files(folder: Path) -> LinkedFiles:
    return LinkedFiles(FolderWorkspace(folder))


def test_a_plot_is_an_image_and_a_resource(folder: Path, files: LinkedFiles) -> None:
    (folder / "outputs" / "plot 1.png").write_bytes(PNG)
    image, link = files.of(["executed:python", "created:outputs/plot 1.png"])
    assert isinstance(image, ImageContent)
    assert (image.mime_type, base64.b64decode(image.data)) == ("image/png", PNG)
    assert isinstance(link, ResourceLink)
    assert (link.uri, link.mime_type, link.size) == ("knackbox://workspace/outputs/plot%201.png", "image/png", len(PNG))
    (contents,) = files.read(link.uri).contents
    assert isinstance(contents, BlobResourceContents)
    assert base64.b64decode(contents.blob) == PNG


def test_text_is_a_resource_with_its_current_content(folder: Path, files: LinkedFiles) -> None:
    (folder / "a.csv").write_text("x,y")
    (link,) = files.of(["created:a.csv"])
    assert isinstance(link, ResourceLink)
    (folder / "a.csv").write_text("x,y\n1,2")
    (contents,) = files.read(link.uri).contents
    assert isinstance(contents, TextResourceContents)
    assert contents.text == "x,y\n1,2"
    assert [each.uri for each in files.listed().resources] == [link.uri]


def test_invalid_and_large_images_are_only_resources(folder: Path, files: LinkedFiles) -> None:
    (folder / "lie.png").write_text("<script>")
    (folder / "large.png").write_bytes(PNG + bytes(IMAGE_BYTES))
    kinds = [type(each) for each in files.of(["created:lie.png", "created:large.png"])]
    assert kinds == [ResourceLink, ResourceLink]


def test_only_files_named_by_a_result_are_read(
    folder: Path, files: LinkedFiles, tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = tmp_path_factory.mktemp("outside") / "secret.txt"
    secret.write_text("secret")
    (folder / "mine.txt").write_text("not shown")
    (folder / "link.txt").symlink_to(secret)
    assert files.of(["created:../secret.txt", f"created:{secret}", "created:link.txt", "created:gone.txt"]) == []
    for name in ("mine.txt", "link.txt", "../secret.txt"):
        with pytest.raises(MCPError, match="no result of this session"):
            files.read(f"knackbox://workspace/{name}")


def test_a_file_replaced_by_a_link_out_of_the_workspace_is_not_read(
    folder: Path, files: LinkedFiles, tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = tmp_path_factory.mktemp("outside") / "secret.txt"
    secret.write_text("secret")
    (folder / "a.txt").write_text("a")
    (link,) = files.of(["created:a.txt"])
    assert isinstance(link, ResourceLink)
    (folder / "a.txt").unlink()
    (folder / "a.txt").symlink_to(secret)
    with pytest.raises(MCPError):
        files.read(link.uri)


def test_links_per_result_and_per_session_are_limited(folder: Path, files: LinkedFiles) -> None:
    names = [f"{number}.txt" for number in range(MAX_READABLE + 5)]
    for name in names:
        (folder / name).write_text(name)
    assert len(files.of([f"created:{name}" for name in names])) == MAX_LINKS
    for name in names:
        files.of([f"created:{name}"])
    pages = [files.listed()]
    while pages[-1].next_cursor is not None:
        pages.append(files.listed(pages[-1].next_cursor))
    assert len({link.uri for page in pages for link in page.resources}) == MAX_READABLE
    assert max(len(page.resources) for page in pages) == PAGE
    with pytest.raises(MCPError):
        files.listed("knackbox://workspace/never.txt")


async def test_a_client_reads_a_file_through_the_link_in_a_result(tmp_path: Path) -> None:
    async with serving("--home", str(tmp_path)) as client:
        await client.send("initialize", HELLO, 1)
        assert "resources" in (await client.answer(1))["result"]["capabilities"]
        await client.send("notifications/initialized")
        arguments = {"action": "write", "path": "note.txt", "content": "hello"}
        await client.send("tools/call", {"name": "file_system", "arguments": arguments}, 2)
        result = (await client.answer(2))["result"]
        assert not result.get("isError"), result
        (link,) = [each for each in result["content"] if each["type"] == "resource_link"]
        await client.send("resources/read", {"uri": link["uri"]}, 3)
        assert (await client.answer(3))["result"]["contents"][0]["text"] == "hello"
        await client.send("resources/read", {"uri": "knackbox://workspace/config.toml"}, 4)
        assert "error" in await client.answer(4)
