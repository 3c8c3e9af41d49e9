"""`digest`: one name for one JSON value, whatever the order of its keys. What is hashed may be long, or a secret."""

import hashlib
import json
from typing import Any


def digest(value: Any) -> str:
    """SHA-256, in hexadecimal, of the value as canonical JSON; what JSON has no form for counts by its `repr`."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=True, default=repr).encode()).hexdigest()
