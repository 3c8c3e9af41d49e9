"""The code every way runs: a small function, with nothing, numpy or pandas imported."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.contract import Call, Job


@dataclass(frozen=True, slots=True)
class Code:
    """One function of one file. preload: what a template has imported already."""

    title: str
    function: str
    source: str
    arguments: Mapping[str, Any]
    preload: tuple[str, ...] = ()

    def job(self) -> Job:
        """For a box."""
        path = f"{self.function}.py"
        return Job(
            files={path: self.source.encode()},
            call=Call(path, self.function, self.arguments),
            preload=self.preload,
        )

    def script(self, folder: Path) -> Path:
        """For everything that starts a program: the same, printing its result."""
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
