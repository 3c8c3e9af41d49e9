"""`Secret`: a value that stays outside of boxes, and the placeholder that stands for it inside."""

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

# Shorter values are likely to occur in ordinary text, which redaction would destroy.
MIN_VALUE, MAX_VALUE = 8, 8192  # characters
NAME = re.compile(r"[A-Z][A-Z0-9_]{0,39}")
VARIABLE_PREFIX = "KNACKBOX_SECRET_"
_DIGITS = 32
PLACEHOLDER = re.compile(rf"knackbox-secret-[A-Z][A-Z0-9_]{{0,39}}-[0-9a-f]{{{_DIGITS}}}")


@dataclass(frozen=True, slots=True)
class SecretHost:
    """A destination that a secret belongs to, in canonical form. With `tls`, the value is only sent over TLS."""

    host: str
    port: int
    tls: bool = True

    def __str__(self) -> str:
        place = f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        return place if self.tls else f"http://{place}"


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that stays outside of boxes.

    Attributes:
        name: Upper-case letters, digits and underscores.
        placeholder: What stands for the value in boxes. It is worthless outside.
        value: The value. It is not part of the representation, so that no log or traceback contains it.
        hosts: The destinations to which the egress proxy may send the value.
    """

    name: str
    placeholder: str
    value: str = field(repr=False)
    hosts: tuple[SecretHost, ...] = ()

    def __post_init__(self) -> None:
        """Check the value.

        Raises:
            ValueError: The value cannot be a secret. The message does not contain it.
        """
        problem = objection(self.value)
        if problem:
            raise ValueError(f"the value of {self.name} {problem}")


def objection(value: str) -> str:
    """Return why a text cannot be the value of a secret, as the end of a sentence; "" if it can."""
    if len(value) < MIN_VALUE:
        return (
            f"has {len(value)} characters. Values need at least {MIN_VALUE}, because redacting a shorter one would "
            "destroy ordinary text. Use a longer value"
        )
    if len(value) > MAX_VALUE:
        return f"has more than {MAX_VALUE:,} characters. Use a shorter value"
    if not value.isprintable():
        return "contains a line break or another control character. Use a value on one line"
    if value != value.strip():
        return "begins or ends with a space. Remove the space"
    if PLACEHOLDER.search(value):
        return "contains a placeholder. Use the real value"
    return ""


def placeholder_of(name: str, key: bytes) -> str:
    """Return the placeholder of a secret.

    Equal keys give equal placeholders, so a resumed run sends the same text. Without the key nobody can guess it.

    Args:
        name: The name of the secret.
        key: A random key of at least 16 bytes.
    """
    digest = hmac.new(key, name.encode(), hashlib.sha256).hexdigest()
    return f"knackbox-secret-{name}-{digest[:_DIGITS]}"


def variables(secrets: Iterable[Secret]) -> dict[str, str]:
    """Return the environment variables with which a program in a box finds the placeholders of these secrets."""
    return {VARIABLE_PREFIX + secret.name: secret.placeholder for secret in secrets}
