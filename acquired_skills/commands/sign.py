"""`knackbox skills sign`: makes the signing key of a home, and signs skills."""

from typing import Annotated

import typer

from acquired_skills.commands.shared import with_library
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.names import skill_name
from acquired_skills.model.skill import SkillError
from acquired_skills.store.keys import key_path
from engine.interfaces.cli.settings import settings_of
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, say, wants_json
from engine.registry.signing import SigningKey
from engine.stores.locks import FileLock


def sign(
    ctx: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="By default all.")] = None,
    *,
    new_key: Annotated[bool, typer.Option("--new-key", help="Create the key first if there is none.")] = False,
    as_json: Json = False,
) -> None:
    """Sign skills with this home's key, replacing any other signatures.

    Skills that were changed after they were signed are refused.
    """
    home, settings = settings_of(ctx)
    path = key_path(home, settings.skills)
    key = SigningKey(path)
    if new_key:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(path.with_name(f"{path.name}.lock")).exclusive():
            if key.exists:
                fail(
                    f"{path} already exists. To make a new key, move this one elsewhere first, and keep its "
                    "public key in `trusted_keys`."
                )
            key.make(lambda _: None)
    elif not key.exists:
        fail(f"{path}: there is no key to sign with. Make one with --new-key.", Exit.USAGE)

    async def work(library: SkillLibrary) -> tuple[list[str], list[str]]:
        signed: list[str] = []
        refused: list[str] = []
        for name in map(skill_name, names) if names else library.store.names():
            try:
                signed.append((await library.sign(name)).name)
            except SkillError as error:
                refused.append(str(error))
        return signed, refused

    signed, refused = with_library(ctx, "signing", work)
    if wants_json(ctx, as_json):
        emit_json({"public_key": key.public, "signed": signed, "refused": refused})
    else:
        for line in refused:
            say(line)
        emit(f"public key {key.public} ({path})\nsigned: {', '.join(signed) or 'nothing'}")
    raise typer.Exit(int(Exit.FAILED if refused else Exit.OK))
