#!/usr/bin/env python3
"""Calls a tool from a shell: knackbox-call NAME [--json ARGUMENTS] [ARGUMENT=VALUE …].

Prints the result: text as it is, any other value as JSON. A value that is valid JSON is passed as such, anything else
as text. The exit code is 1 if the call fails, with the reason on stderr, and 2 for a mistake in the command.
`knackbox-call --search QUERY` and `knackbox-call --describe NAME` find tools.
"""

import json
import sys

import knackbox  # type: ignore[import-not-found]  # beside this program in a box


def main(words: list[str]) -> int:
    if not words or words[0] in {"-h", "--help"}:
        print((__doc__ or "").strip())
        return 0 if words else 2
    try:
        if words[0] == "--search":
            result = knackbox.tools.search(" ".join(words[1:]))
        elif words[0] == "--describe":
            result = knackbox.tools.describe(words[1])
        else:
            result = knackbox.tools[words[0]](**arguments(words[1:]))
    except knackbox.ToolError as failed:
        print(failed, file=sys.stderr)
        return 1
    except (ValueError, IndexError) as mistake:
        print(f"knackbox-call: {mistake}. See knackbox-call --help.", file=sys.stderr)
        return 2
    if isinstance(result, knackbox.LargeResult):
        result = result.text()
    print(result if isinstance(result, str) else json.dumps(result, ensure_ascii=False))
    return 0


def arguments(words: list[str]) -> dict[str, object]:
    given: dict[str, object] = {}
    while words:
        word, *words = words
        if word == "--json":
            if not words:
                raise ValueError("--json needs an object, or - to read it from stdin")
            text, *words = words
            given.update(json.loads(sys.stdin.read() if text == "-" else text))
            continue
        name, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"{word!r} is not NAME=VALUE")
        try:
            given[name] = json.loads(value)
        except ValueError:
            given[name] = value
    return given


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
