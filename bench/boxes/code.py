"""The code that all candidates run: small functions that use the standard library, numpy or pandas."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.contract import Call, Job


@dataclass(frozen=True, slots=True)
class Code:
    """One function in one file.

    Attributes:
        preload: The packages that a template has already imported.
    """

    title: str
    function: str
    source: str
    arguments: Mapping[str, Any]
    preload: tuple[str, ...] = ()

    def job(self) -> Job:
        """Return the job for a box."""
        path = f"{self.function}.py"
        return Job(
            files={path: self.source.encode()},
            call=Call(path, self.function, self.arguments),
            preload=self.preload,
        )

    def script(self, folder: Path) -> Path:
        """Write a script that does the same and prints the result, for candidates that start a program."""
        path = folder / f"{self.function}_script.py"
        path.write_text(f"{self.source}\nprint({self.function}(**{json.dumps(dict(self.arguments))}))\n")
        return path


PLAIN = Code(
    title="standard library",
    function="count_vowels",
    source='def count_vowels(text):\n    return sum(letter in "aeiou" for letter in text.lower())\n',
    arguments={"text": "The quick brown fox jumps over the lazy dog"},
)
CODES = (
    PLAIN,
    Code(
        title="import numpy",
        function="norm",
        source="import numpy as np\n\n\ndef norm(values):\n    return float(np.linalg.norm(values))\n",
        arguments={"values": [3.0, 4.0]},
        preload=("numpy",),
    ),
    Code(
        title="import pandas",
        function="mean_of_column",
        source="import pandas as pd\n\n\ndef mean_of_column(values):\n    return float(pd.Series(values).mean())\n",
        arguments={"values": [1.0, 2.5, 4.0]},
        preload=("pandas",),
    ),
)
