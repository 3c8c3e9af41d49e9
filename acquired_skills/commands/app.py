"""`knackbox skills …`: what `create_skill` and `manage_skills` do, for people. Entry point of ``knackbox.commands``."""

import typer

from acquired_skills.commands import changing, finding, keeping, looking, portable, signing, suggesting

app = typer.Typer(
    help="The acquired skills: list, show, add, compose, search, sign, export, import, and keep them in order.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("list")(looking.list_)
for command in (
    looking.show,
    changing.add,
    suggesting.compose,
    suggesting.suggest,
    changing.delete,
    changing.restore,
    changing.disable,
    changing.enable,
    changing.rollback,
    looking.history,
    looking.stats,
    finding.search,
    keeping.verify,
    keeping.reindex,
    signing.sign,
    portable.export,
):
    app.command()(command)
app.command("import")(portable.import_)
