"""`knackbox registry …`: what an operator registers, and its snapshots."""

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
    help="Registered tools, prompts and agents; their snapshots.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


Name = Annotated[str, typer.Argument(help="The name of a tool, or the id of a prompt or agent.")]
OfKind = Annotated[RegistryKind, typer.Option("--kind", help="Of what.")]


@app.command("list")
def list_(ctx: typer.Context, as_json: Json = False) -> None:
    """What is registered, what is disabled, and what could not be loaded."""

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

    found = _done(ctx, work, "reading")
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
        print_table(("what", "id", "name", "version", "about", "state"), rows)
    else:
        say("nothing is registered.")
    for problem in found["problems"]:
        say(problem)


@app.command()
def register(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="One JSON object, or a list; - reads stdin.")],
    kind: Annotated[RegistryKind | None, typer.Option("--kind", help="Of what; else as its fields say.")] = None,
    as_json: Json = False,
) -> None:
    """Register tools, prompts or agents, or replace those of the same ids. When one does not fit, none."""
    try:
        given = read_json(read_input(file, "register"))
    except JsonError as error:
        fail(f"{file}: not valid JSON: {error}.", Exit.USAGE)
    envelopes = given if isinstance(given, list) else [given]
    if not envelopes or not all(isinstance(each, dict) for each in envelopes):
        fail(f"{file}: it must be one JSON object, or a list of at least one.", Exit.USAGE)
    try:
        entries = [(kind or kind_of(each), each) for each in envelopes]
    except RegistryError as error:
        fail(f"{file}: {error}", Exit.USAGE)

    async def work(engine: Engine) -> list[dict[str, str]]:
        ids = await engine.registries.register_all([(each.subject, envelope) for each, envelope in entries])
        return [{"kind": each.value, "id": item_id} for (each, _), item_id in zip(entries, ids, strict=True)]

    done = _done(ctx, work, "registering")
    if wants_json(ctx, as_json):
        emit_json({"registered": done})
        return
    for each in done:
        emit(f"registered the {each['kind']} {each['id']}")


@app.command()
def disable(ctx: typer.Context, name: Name, kind: OfKind = RegistryKind.TOOL, as_json: Json = False) -> None:
    """Keep it, and neither offer nor use it. Built-in tools, skills and modules can be disabled, too."""
    _switch(ctx, name, kind, disabled=True, as_json=as_json)


@app.command()
def enable(ctx: typer.Context, name: Name, kind: OfKind = RegistryKind.TOOL, as_json: Json = False) -> None:
    """Undo disable."""
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

    changed = _done(ctx, work, "writing")
    _say_done(ctx, name, "disabled" if disabled else "enabled", changed=changed, as_json=as_json)


@app.command()
def delete(ctx: typer.Context, name: Name, kind: OfKind = RegistryKind.TOOL, as_json: Json = False) -> None:
    """Delete what was registered."""

    async def work(engine: Engine) -> bool:
        if kind is RegistryKind.TOOL:
            await engine.registry.delete(name)
        elif not await asyncio.to_thread(engine.registries.files[kind.subject].remove, name):
            raise RegistryError(f"There is no {kind} {name!r}.")
        return True

    _say_done(ctx, name, "deleted", changed=_done(ctx, work, "writing"), as_json=as_json)


@app.command()
def health(ctx: typer.Context, as_json: Json = False) -> None:
    """Import every adapter. Ends with 1 when one cannot be used, or an entry could not be loaded."""

    async def work(engine: Engine) -> tuple[dict[str, str], list[str]]:
        problems = [str(problem) for problem in await engine.registries.problems()]
        return await engine.registries.health(), problems

    tools, problems = _done(ctx, work, "importing")
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
    """Write down and sign all three registries as they are."""

    async def work(engine: Engine) -> dict[str, Any]:
        return asdict(await asyncio.to_thread(engine.registries.snapshots.take, getpass.getuser()))

    taken = _done(ctx, work, "writing")
    if wants_json(ctx, as_json):
        emit_json(taken)
    else:
        emit(taken["snapshot"])


@app.command()
def snapshots(ctx: typer.Context, as_json: Json = False) -> None:
    """Every snapshot and restore on the log, oldest first."""

    async def work(engine: Engine) -> list[dict[str, Any]]:
        return [asdict(each) for each in await asyncio.to_thread(engine.registries.snapshots.entries)]

    entries = _done(ctx, work, "reading")
    if wants_json(ctx, as_json):
        emit_json({"entries": entries})
        return
    if not entries:
        say("no snapshot was taken yet.")
        return
    rows = [(each["ts"][:19], each["who"], each["action"], each["snapshot"]) for each in entries]
    print_table(("when", "who", "what", "snapshot"), rows)


@app.command()
def verify(ctx: typer.Context, as_json: Json = False) -> None:
    """Check every snapshot and the log. Ends with 1 when anything is not as it was written."""

    async def work(engine: Engine) -> list[str]:
        return await asyncio.to_thread(engine.registries.snapshots.verify)

    problems = _done(ctx, work, "checking")
    if wants_json(ctx, as_json):
        emit_json({"ok": not problems, "problems": problems})
    for problem in problems:
        say(problem)
    if not problems:
        say("all snapshots and the log are as they were written.")
    raise typer.Exit(int(Exit.FAILED if problems else Exit.OK))


@app.command()
def restore(
    ctx: typer.Context,
    snapshot: Annotated[str, typer.Argument(metavar="SNAPSHOT", help="As `knackbox registry snapshots` shows it.")],
    as_json: Json = False,
) -> None:
    """Bring the registries back as they were. What is there is taken as a snapshot first."""

    async def work(engine: Engine) -> dict[str, str]:
        return asdict(await asyncio.to_thread(engine.registries.snapshots.restore, snapshot, getpass.getuser()))

    done = _done(ctx, work, "restoring")
    if wants_json(ctx, as_json):
        emit_json(done)
    else:
        emit(f"restored {done['snapshot']}; what was there is {done['before']}")


def _done(ctx: typer.Context, work: Callable[[Engine], Coroutine[Any, Any, T]], label: str) -> T:
    """The work in an engine. Ends the command when what is asked for does not fit, or is not there."""

    try:
        with working(label):
            return with_engine(ctx, work)
    except (RegistryError, ToolNotFound) as error:
        fail(str(error), Exit.USAGE)


def _say_done(ctx: typer.Context, name: str, done: str, *, changed: bool, as_json: bool) -> None:
    if wants_json(ctx, as_json):
        emit_json({"name": name, "state": done, "changed": changed})
    else:
        emit(f"{name} is {done}" if changed else f"{name} was {done} already")
