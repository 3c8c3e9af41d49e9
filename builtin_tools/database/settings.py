"""The table `[packs.database]` of the configuration, and where the connection strings come from.

A connection string contains a password. It is kept as a `SecretStr`, and no message of this module quotes a value.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from engine.contract.failure import ConfigError

NAME = "database"  # the name of the entry point and therefore of the configuration table
MAX_DSN_BYTES = 8192

# Rights that a person can accept (`builtin_tools.database.rights`). The rights of a superuser cannot be accepted.
AcceptableRight = Literal["writes", "functions", "roles", "replication", "signals", "secrets"]


class DatabaseSettings(BaseModel):
    """The table `[packs.database]` of the configuration.

    A connection string (DSN) is set directly, or as the name of an environment variable or file that contains it.

    Attributes:
        dsn, dsn_env, dsn_file: The connection string for everything that reads. Its role should only be able to read.
        write_dsn, write_dsn_env, write_dsn_file: The connection string for `execute`.
        allow_writes: Whether `execute` is offered. It needs a connection string for writing.
        accept_rights: Rights that the role for reading may have although they allow more than reading.
        statement_timeout_s: Seconds after which the database ends a statement.
        lock_timeout_s: Seconds for which a statement waits for a lock.
        connect_timeout_s: Seconds for which a connection is awaited.
        max_sessions: Number of sessions at the same time. Further calls wait.
        max_rows: Number of rows that one result file contains at most.
        max_file_bytes: Size limit of a result file.
        max_row_bytes: Size limit of one row.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    dsn: SecretStr | None = None
    dsn_env: str = ""
    dsn_file: Path | None = None
    write_dsn: SecretStr | None = None
    write_dsn_env: str = ""
    write_dsn_file: Path | None = None
    allow_writes: bool = False
    accept_rights: tuple[AcceptableRight, ...] = ()
    statement_timeout_s: Annotated[float, Field(gt=0, le=3600)] = 60
    lock_timeout_s: Annotated[float, Field(gt=0, le=600)] = 5
    connect_timeout_s: Annotated[int, Field(ge=2, le=60)] = 10  # libpq waits for at least 2 seconds
    max_sessions: Annotated[int, Field(ge=1, le=32)] = 4
    max_rows: Annotated[int, Field(ge=1)] = 10_000_000
    max_file_bytes: Annotated[int, Field(ge=1024)] = 2 << 30
    max_row_bytes: Annotated[int, Field(ge=1024)] = 16 << 20

    @model_validator(mode="after")
    def _one_source_each(self) -> "DatabaseSettings":
        for prefix, given in (("", self.reading), ("write_", self.writing)):
            if given.sources > 1:
                raise ValueError(f"set only one of {prefix}dsn, {prefix}dsn_env and {prefix}dsn_file")
        if self.allow_writes and not self.writing.sources:
            raise ValueError("allow_writes needs write_dsn, write_dsn_env or write_dsn_file")
        return self

    @property
    def reading(self) -> "DsnSource":
        return DsnSource(self.dsn, self.dsn_env, self.dsn_file)

    @property
    def writing(self) -> "DsnSource":
        return DsnSource(self.write_dsn, self.write_dsn_env, self.write_dsn_file)


@dataclass(frozen=True, slots=True)
class DsnSource:
    """Where a connection string comes from: at most one of the fields is set."""

    value: SecretStr | None
    variable: str
    file: Path | None

    @property
    def sources(self) -> int:
        return sum((bool(self.value and self.value.get_secret_value()), bool(self.variable), self.file is not None))

    def available(self, environ: Mapping[str, str]) -> bool:
        """Return whether a connection string is configured. The content of a file is not examined."""
        return bool(self.sources) and not (self.variable and not environ.get(self.variable))

    def read(self, environ: Mapping[str, str]) -> SecretStr:
        """Return the connection string. A file is read each time, so that its content can be exchanged.

        Raises:
            ConfigError: There is none, or the file cannot be read.
        """
        if self.value is not None:
            return self.value
        if self.variable:
            if not environ.get(self.variable):
                raise ConfigError(f"The environment variable {self.variable} is not set; set it to the DSN.")
            return SecretStr(environ[self.variable])
        if self.file is None:
            raise ConfigError("No DSN is configured; set dsn_file, dsn_env or dsn in [packs.database].")
        try:
            with self.file.expanduser().open("rb") as stream:
                data = stream.read(MAX_DSN_BYTES + 1)
            text = data.decode("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            said = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ConfigError(f"{self.file}: the DSN cannot be read: {said}. Correct the file.") from None
        if not text or len(data) > MAX_DSN_BYTES:
            raise ConfigError(f"{self.file} contains no DSN; write one line such as postgresql://user:…@host/name.")
        return SecretStr(text)


def database_settings(table: Any) -> DatabaseSettings:
    """Return the settings of the pack.

    Unlike `pack_settings`, no value is quoted in an error, because a misspelled setting may contain a password.

    Raises:
        ConfigError: A setting is unknown or invalid.
    """
    try:
        return DatabaseSettings.model_validate(table)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or "settings"
    raise ConfigError(
        f"[packs.{NAME}] {field}: {first['msg']}. Correct or remove it. Known settings: "
        f"{', '.join(DatabaseSettings.model_fields)}."
    )


def environment() -> Mapping[str, str]:
    """Return the environment variables of this process."""
    return os.environ
