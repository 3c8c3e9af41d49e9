"""`digest`: a hash of a JSON value that does not depend on the order of keys."""

import hashlib
import json
from typing import Any


def digest(value: Any) -> str:
    """Return the SHA-256 of the value's canonical JSON, in hexadecimal.

    Any part of the value that has no JSON form is replaced by its `repr`.
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=True, default=repr).encode()).hexdigest()
