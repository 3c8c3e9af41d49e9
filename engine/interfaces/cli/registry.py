"""`knackbox registry …`: registers tools, prompts and agents, and takes and restores snapshots."""

import asyncio
import getpass
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from typing import Annotated, Any, TypeVar

import typer

from engine.app.engine import Engine
from engine.contract.failure import ToolNotFound
from engine.contract.strict_json import JsonError, read_json
from engine.interfaces.cli.registered import RegistryKind, kind_of, shorten, summary_fields
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, read_input, say, wants_json
from engine.interfaces.cli.spinner import working
from engine.interfaces.cli.tables import print_table
from engine.registry.static import RegistryError

T = TypeVar("T")

app = typer.Typer(
    help="Register tools, prompts and agents, and take snapshots.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


Name = Annotated[str, typer.Argument(help="The name of a tool, or the id of a prompt or agent.")]
OfKind = Annotated[RegistryKind, typer.Option("--kind", help="The kind of the item.")]


@app.command("list")
def list_(ctx: typer.Context, as_json: Json = False) -> None:
    """List what is registered, what is disabled, and what could not be loaded."""

    async def work(engine: Engine) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for subject, registry in engine.registries.files.items():
            view = await asyncio.to_thread(registry.view)
            shown[subject] = [
                {"id": item_id, "disabled": view.disabled.get(item_id), **summary_fields(item)}
                for item_id, item in view.items.items()
            ]
            shown[f"disabled_{subject}"] = dict(view.disabled)
        shown["problems"] = [str(problem) for problem in await engine.registries.problems()]
        return shown

    found = _with_registries(ctx, work, "reading")
    if wants_json(ctx, as_json):
        emit_json(found)
        return
    rows = [
        (
            kind.value,
            item["id"],
            item["name"],
            item.get("version", ""),
            shorten(item.get("adapter_path") or item.get("desc") or item.get("template", "")),
            f"disabled since {item['disabled']}" if item["disabled"] else "",
        )
        for kind in RegistryKind
        for item in found[kind.subject]
    ]
    registered = {item["id"] for item in found["tools"]}
    disabled = found["disabled_tools"].items()
    rows += [("tool", name, "", "", "", f"disabled since {at}") for name, at in disabled if name not in registered]
    if rows:
        print_table(("kind", "id", "name", "version", "description", "state"), rows)
    else:
        say("nothing is registered.")
    for problem in found["problems"]:
        say(problem)


@app.command()
def register(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file with one JSON object or a list; - reads stdin.")],
    kind: Annotated[
        RegistryKind | None,
        typer.Option("--kind", help="The kind of the items; by default recognized by their fields."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Register tools, prompts or agents, replacing those with the same ids. If one is invalid, none is registered."""
    try:
        given = read_json(read_input(file, "register"))
    except JsonError as error:
        fail(f"{file}: not valid JSON: {error}.", Exit.USAGE)
    envelopes = given if isinstance(given, list) else [given]
    if not envelopes or not all(isinstance(each, dict) for each in envelopes):
        fail(f"{file}: must be one JSON object or a non-empty list of objects.", Exit.USAGE)
    try:
        entries = [(kind or kind_of(each), each) for each in envelopes]
    except RegistryError as error:
        fail(f"{file}: {error}", Exit.USAGE)

    async def work(engine: Engine) -> list[dict[str, str]]:
        ids = await engine.registries.register_all([(each.subject, envelope) for each, envelope in entries])
        return [{"kind": each.value, "id": item_id} for (each, _), item_id in zip(entries, ids, strict=True)]

    done = _with_registries(ctx, work, "registering")
    if wants_json(ctx, as_json):
        emit_json({"registered": done})
        return
    for each in done:
        emit(f"registered the {each['kind']} {each['id']}")


@app.command()
def disable(ctx: typer.Context, name: Name, kind: OfKind = RegistryKind.TOOL, as_json: Json = False) -> None:
    """Disable an item without deleting it. Built-in tools, skills and tools of modules can be disabled too."""
    _switch(ctx, name, kind, disabled=True, as_json=as_json)


@app.command()
def enable(ctx: typer.Context, name: Name, kind: OfKind = RegistryKind.TOOL, as_json: Json = False) -> None:
    """Enable a disabled item again."""
    _switch(ctx, name, kind, disabled=False, as_json=as_json)


def _switch(ctx: typer.Context, name: str, kind: RegistryKind, *, disabled: bool, as_json: bool) -> None:
    async def work(engine: Engine) -> bool:
        if kind is RegistryKind.TOOL:
            return await (engine.registry.disable(name) if disabled else engine.registry.enable(name))
        registry = engine.registries.files[kind.subject]
        view = await asyncio.to_thread(registry.view)
        if name not in view.items and name not in view.disabled:
            raise RegistryError(f"There is no {kind} {name!r}.")
        return await asyncio.to_thread(registry.set_disabled, name, disabled)

    changed = _with_registries(ctx, work, "writing")
    _report(ctx, name, "disabled" if disabled else "enabled", changed=changed, as_json=as_json)


@app.command()
def delete(ctx: typer.Context, name: Name, kind: OfKind = RegistryKind.TOOL, as_json: Json = False) -> None:
    """Delete a registered item."""

    async def work(engine: Engine) -> bool:
        if kind is RegistryKind.TOOL:
            await engine.registry.delete(name)
        elif not await asyncio.to_thread(engine.registries.files[kind.subject].remove, name):
            raise RegistryError(f"There is no {kind} {name!r}.")
        return True

    _report(ctx, name, "deleted", changed=_with_registries(ctx, work, "writing"), as_json=as_json)


@app.command()
def health(ctx: typer.Context, as_json: Json = False) -> None:
    """Import every adapter. The exit code is 1 if an adapter is unusable or a registry entry could not be loaded."""

    async def work(engine: Engine) -> tuple[dict[str, str], list[str]]:
        problems = [str(problem) for problem in await engine.registries.problems()]
        return await engine.registries.health(), problems

    tools, problems = _with_registries(ctx, work, "importing")
    good = not problems and not any(tools.values())
    if wants_json(ctx, as_json):
        emit_json({"ok": good, "tools": tools, "problems": problems})
    else:
        if tools:
            print_table(("tool", "adapter"), [(spec_id, why or "ok") for spec_id, why in tools.items()])
        else:
            say("no tool is registered.")
        for problem in problems:
            say(problem)
    raise typer.Exit(int(Exit.OK if good else Exit.FAILED))


@app.command()
def snapshot(ctx: typer.Context, as_json: Json = False) -> None:
    """Take a signed snapshot of the registries of tools, prompts and agents."""

    async def work(engine: Engine) -> dict[str, Any]:
        return asdict(await asyncio.to_thread(engine.registries.snapshots.take, getpass.getuser()))

    taken = _with_registries(ctx, work, "writing")
    if wants_json(ctx, as_json):
        emit_json(taken)
    else:
        emit(taken["snapshot"])


@app.command()
def snapshots(ctx: typer.Context, as_json: Json = False) -> None:
    """List every snapshot and restore in the log, oldest first."""

    async def work(engine: Engine) -> list[dict[str, Any]]:
        return [asdict(each) for each in await asyncio.to_thread(engine.registries.snapshots.entries)]

    entries = _with_registries(ctx, work, "reading")
    if wants_json(ctx, as_json):
        emit_json({"entries": entries})
        return
    if not entries:
        say("no snapshots have been taken yet.")
        return
    rows = [(each["ts"][:19], each["who"], each["action"], each["snapshot"]) for each in entries]
    print_table(("when", "who", "action", "snapshot"), rows)


@app.command()
def verify(ctx: typer.Context, as_json: Json = False) -> None:
    """Verify every snapshot and the log. The exit code is 1 if anything was changed after it was written."""

    async def work(engine: Engine) -> list[str]:
        return await asyncio.to_thread(engine.registries.snapshots.verify)

    problems = _with_registries(ctx, work, "checking")
    if wants_json(ctx, as_json):
        emit_json({"ok": not problems, "problems": problems})
    for problem in problems:
        say(problem)
    if not problems:
        say("all snapshots and the log are unchanged.")
    raise typer.Exit(int(Exit.FAILED if problems else Exit.OK))


@app.command()
def restore(
    ctx: typer.Context,
    snapshot: Annotated[
        str, typer.Argument(metavar="SNAPSHOT", help="The snapshot, as `knackbox registry snapshots` shows it.")
    ],
    as_json: Json = False,
) -> None:
    """Restore the registries from a snapshot. A snapshot of the current registries is taken first."""

    async def work(engine: Engine) -> dict[str, str]:
        return asdict(await asyncio.to_thread(engine.registries.snapshots.restore, snapshot, getpass.getuser()))

    done = _with_registries(ctx, work, "restoring")
    if wants_json(ctx, as_json):
        emit_json(done)
    else:
        emit(f"restored {done['snapshot']}; the previous state is {done['before']}")


def _with_registries(ctx: typer.Context, work: Callable[[Engine], Coroutine[Any, Any, T]], label: str) -> T:
    """Run the work with an engine. End the command if an item is invalid or does not exist."""
    try:
        with working(label):
            return with_engine(ctx, work)
    except (RegistryError, ToolNotFound) as error:
        fail(str(error), Exit.USAGE)


def _report(ctx: typer.Context, name: str, state: str, *, changed: bool, as_json: bool) -> None:
    if wants_json(ctx, as_json):
        emit_json({"name": name, "state": state, "changed": changed})
    else:
        emit(f"{name} is {state}" if changed else f"{name} was already {state}")
