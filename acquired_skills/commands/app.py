"""`knackbox skills …`: the functions of `create_skill` and `manage_skills` for people. Entry point
``knackbox.commands``.
"""

import typer

from acquired_skills.commands import compose, maintain, manage, search, show, sign, transfer

app = typer.Typer(
    help="The acquired skills: list, show, add, compose, search, sign, export, import, and verify them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("list")(show.list_)
for command in (
    show.show,
    manage.add,
    compose.compose,
    compose.suggest,
    manage.delete,
    manage.restore,
    manage.disable,
    manage.enable,
    manage.rollback,
    show.history,
    show.stats,
    search.search,
    maintain.verify,
    maintain.reindex,
    sign.sign,
    transfer.export,
):
    app.command()(command)
app.command("import")(transfer.import_)
