"""The inbox of a run: messages that were sent to it while it works or waits, in the database of `RunJournal`.

A message is never marked as delivered. The entry that adds it to the run has its number, so both happen in one commit,
and what was not delivered is what has a higher number.
"""

import re
from dataclasses import dataclass

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Integer,
    MetaData,
    RowMapping,
    String,
    Table,
    Text,
    UniqueConstraint,
    delete,
    insert,
    select,
)

from engine.contract.failure import ConfigError

PERSON = "person"  # the sender of a message that a person wrote
LONGEST = 100_000  # characters of a message
_SENDER = re.compile(r"[a-z0-9][a-z0-9_.:/-]{0,79}")
_KEY_CHARACTERS = 200

INBOX_SCHEMA = MetaData()
_INBOX = Table(
    "run_inbox",
    INBOX_SCHEMA,
    Column("number", Integer, primary_key=True),
    Column("run", String(40), nullable=False, index=True),
    Column("ts", String(40), nullable=False),
    Column("sender", String(80), nullable=False),
    Column("text", Text, nullable=False),
    Column("stop", Boolean, nullable=False),
    Column("key", String(_KEY_CHARACTERS), nullable=True),
    UniqueConstraint("run", "sender", "key"),
    sqlite_autoincrement=True,  # no number is used twice, even if messages are deleted
)


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to send to a run.

    Attributes:
        text: The message; it may be empty only if `stop` is set.
        sender: `PERSON`, or the name of what sent it, such as ``"swarm:4f2a"``.
        stop: Whether the run is to end instead of beginning another turn.
        key: Makes repeated sending safe: a second message of this sender with the same key is ignored. "" for none.
    """

    text: str
    sender: str = PERSON
    stop: bool = False
    key: str = ""

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            ConfigError: A field is not valid.
        """
        if not self.text.strip() and not self.stop:
            raise ConfigError("The message is empty. Give it a text.")
        if len(self.text) > LONGEST:
            raise ConfigError(f"The message has {len(self.text)} characters. At most {LONGEST} are allowed.")
        if not _SENDER.fullmatch(self.sender):
            raise ConfigError(
                f"The sender {self.sender!r} is not valid. Use up to 80 small letters, digits and _ . : / - characters."
            )
        if len(self.key) > _KEY_CHARACTERS:
            raise ConfigError(f"The key of a message has more than {_KEY_CHARACTERS} characters. Use a shorter one.")


@dataclass(frozen=True, slots=True)
class RunMessage:
    """A message in the inbox of a run.

    Attributes:
        number: Its place among the messages of all runs. Later messages have higher numbers.
        ts: When it was sent, UTC, ISO 8601.
        sender, text, stop: As in `NewMessage`.
    """

    number: int
    ts: str
    sender: str
    text: str
    stop: bool


def add_message(connection: Connection, run: str, new: NewMessage, now: str) -> int:
    """Add a message and return its number. If its key is known, return the number of the first message with the key."""
    if new.key:
        same = (_INBOX.c.run == run) & (_INBOX.c.sender == new.sender) & (_INBOX.c.key == new.key)
        found = connection.execute(select(_INBOX.c.number).where(same)).scalar()
        if found is not None:
            return int(found)
    row = {"run": run, "ts": now, "sender": new.sender, "text": new.text, "stop": new.stop, "key": new.key or None}
    added = connection.execute(insert(_INBOX).values(row).returning(_INBOX.c.number))
    return int(added.scalar_one())


def messages_of(connection: Connection, run: str, after: int) -> list[RunMessage]:
    """Return the messages to a run with higher numbers than `after`, in order."""
    query = select(_INBOX).where((_INBOX.c.run == run) & (_INBOX.c.number > after)).order_by(_INBOX.c.number)
    return [_message(row) for row in connection.execute(query).mappings()]


def withdraw_message(connection: Connection, run: str, sender: str, key: str) -> None:
    """Delete the message of a sender with this key. If it was delivered, the run keeps it."""
    same = (_INBOX.c.run == run) & (_INBOX.c.sender == sender) & (_INBOX.c.key == key)
    connection.execute(delete(_INBOX).where(same))


def delete_messages(connection: Connection, run: str) -> None:
    """Delete all messages to a run."""
    connection.execute(delete(_INBOX).where(_INBOX.c.run == run))


def _message(row: RowMapping) -> RunMessage:
    return RunMessage(row["number"], row["ts"], row["sender"], row["text"], row["stop"])
