"""`SecretSettings`: a table `[secrets.NAME]` of the configuration (CODE-7). It never contains the value itself."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from engine.app.section import Section
from sandbox.contract import Destination
from sandbox.egress.rules import canonical_destination
from sandbox.secrets.secret import NAME, SecretHost

SecretName = Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
_PLAIN = "http://"
_SOURCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:[/~][^\0]*|keyring:[^/]+/.+")


def _source(text: str) -> str:
    if not _SOURCE.fullmatch(text):  # the text may be a value by mistake, so no message may contain it
        raise ValueError(
            "this is not a source. Write env:VARIABLE, file:/ABSOLUTE/PATH or keyring:SERVICE/USER, and not the value"
        )
    return text


def _secret_host(text: str) -> str:
    try:
        return str(secret_host(text))
    except ValueError:  # likewise
        raise ValueError("this is not a destination. Write host:port, or http://host:port without TLS") from None


def secret_host(text: str) -> SecretHost:
    """Parse `host:port`, which means TLS, or `http://host:port`.

    Raises:
        ValueError: The text has another form.
    """
    plain = text.strip().startswith(_PLAIN)
    place = canonical_destination(Destination.parse(text.strip().removeprefix(_PLAIN)))
    return SecretHost(place.host, place.port, tls=not plain)


class SecretSettings(Section):
    """A secret.

    Attributes:
        source: `from` in the file: `env:VARIABLE`, `file:PATH` or `keyring:SERVICE/USER`.
        hosts: Destinations to which the egress proxy sends the value, only over TLS; with `http://`, without TLS.
        tools: Names of tools that receive the value in place of the placeholder in their arguments.
    """

    source: Annotated[str, AfterValidator(_source)] = Field(alias="from")
    hosts: tuple[Annotated[str, AfterValidator(_secret_host)], ...] = ()
    tools: tuple[str, ...] = ()
