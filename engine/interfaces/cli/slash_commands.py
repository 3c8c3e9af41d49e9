"""Commands of a dialogue: lines such as ``/runs`` that begin with a slash.

A few concern the conversation. All others are commands of `knackbox`, which run in a process of their own, so that they
do the same as in a shell: ``/jobs history ID`` is ``knackbox jobs history ID``.
"""

import asyncio
import difflib
import re
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence

import typer
from typer.core import TyperGroup

from engine.interfaces.cli.shared import options

OWN = {
    "help": "Show this help.",
    "new": "Start a new conversation.",
    "resume": "Continue the conversation of a run: /resume ID; without ID the latest one.",
    "cancel": "Cancel a run that waits: /cancel ID; without ID the latest one of this conversation.",
    "cost": "Show the tokens and the cost of this dialogue.",
    "exit": "Leave. So do Ctrl-D, and Ctrl-C twice.",
}
# What a command without further words means.
USUAL = {
    "runs": ("runs", "list"),
    "jobs": ("jobs", "list"),
    "skills": ("skills", "list"),
    "projects": ("projects", "list"),
    "memory": ("memory", "list"),
    "modules": ("modules", "list"),
}
ELSEWHERE = frozenset({"chat", "mcp", "serve", "work"})  # they do not end, or read stdin
_COMMAND = re.compile(r"/[a-z][a-z-]*(\s|$)")


def is_command(line: str) -> bool:
    """Return whether a line is a command. A path such as ``/home/me`` is not."""
    return _COMMAND.match(line) is not None


def words_of(line: str) -> list[str]:
    """Return the words of a command, without the slash.

    Raises:
        ValueError: A quotation is not closed.
    """
    return shlex.split(line[1:])


def arguments_of(words: Sequence[str]) -> list[str]:
    """Return the arguments of `knackbox` for the words of a command."""
    name, rest = words[0], list(words[1:])
    if not rest:
        return list(USUAL.get(name, (name,)))
    if name == "tools" and not rest[0].startswith("-"):
        return ["tools", "--query", " ".join(rest)]
    return [name, *rest]


def commands_of(ctx: typer.Context) -> dict[str, str]:
    """Return the commands of `knackbox` that can be used in a dialogue, with a line of help each."""
    root = ctx.find_root()
    group = root.command
    found: dict[str, str] = {}
    if not isinstance(group, TyperGroup):
        return found
    for name in group.list_commands(root):
        command = group.get_command(root, name)
        if command is not None and name not in ELSEWHERE:
            found[name] = command.get_short_help_str(100)
    return found


def refusal_of(name: str, known: Mapping[str, str]) -> str:
    """Return why a command cannot be used; "" if it can."""
    if name in ELSEWHERE:
        return f"/{name} cannot run inside a dialogue. Run knackbox {name} in another terminal."
    if name in known:
        return ""
    near = difflib.get_close_matches(name, [*OWN, *known], n=1)
    return f"there is no command /{name}.{f' Did you mean /{near[0]}?' if near else ''} /help lists all."


def help_text(known: Mapping[str, str]) -> str:
    """Return the text of ``/help``."""
    lines = ["Type a message, or a command:"]
    lines += [f"  /{name:<11} {text}" for name, text in OWN.items()]
    lines += ["Everything that knackbox can do:"]
    lines += [f"  /{name:<11} {text}" for name, text in known.items() if name not in OWN]
    lines += ["Words after a command are passed on: /jobs history ID. Ctrl-C stops a run."]
    return "\n".join(lines)


async def run_command(ctx: typer.Context, home: str, arguments: Sequence[str]) -> int:
    """Run a command of `knackbox` at this terminal, and return its exit code. Ctrl-C ends only the command."""
    unsafe = ["--unsafe-no-sandbox"] if options(ctx).unsafe_no_sandbox else []
    line = ["-P", "-m", "engine.interfaces.cli.main", "--home", home, *unsafe, *arguments]
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    try:
        process = await asyncio.create_subprocess_exec(sys.executable, *line)
        return await process.wait()
    finally:
        loop.remove_signal_handler(signal.SIGINT)
