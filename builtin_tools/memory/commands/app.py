"""Search, show, add to and forget from the long-term memory.

The commands `knackbox memory …` do the same as the memory tools. Entry point of the group ``knackbox.commands``.
"""

import typer

from builtin_tools.memory.commands import facts, ingest, learned, reindex

app = typer.Typer(
    help="The memory: search, list, show, add, ingest, forget, reindex, export, import; profile, lessons, dream.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("list")(facts.list_)
for command in (
    facts.search,
    facts.show,
    facts.add,
    ingest.ingest,
    facts.forget,
    facts.export,
    learned.profile,
    learned.lessons,
    learned.dream,
    reindex.reindex,
):
    app.command()(command)
app.command("import")(facts.import_)
