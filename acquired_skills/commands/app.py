"""List, add, search, audit, export and import skills.

These commands, `knackbox skills …`, do what the tools create_skill and manage_skills do for agents. Entry point of the
group ``knackbox.commands``.
"""

import typer

from acquired_skills.commands import compose, distil, maintain, manage, prove, questions, search, show, sign, transfer

app = typer.Typer(
    help=(
        "The acquired skills: list, show, add, compose, search, sign, export, import, prove, distil, verify, and audit "
        "them."
    ),
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
    manage.correct,
    show.history,
    show.stats,
    search.search,
    maintain.verify,
    maintain.reindex,
    maintain.audit,
    maintain.trial,
    sign.sign,
    transfer.export,
    prove.prove,
    questions.questions,
    distil.distil,
):
    app.command()(command)
app.command("import")(transfer.import_)
