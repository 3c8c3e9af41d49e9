"""A DNS server for the exits of the test network. It answers from a JSON file, which it reads for each query."""

import json
import socket
import struct
import sys
from pathlib import Path

_HEADER = struct.Struct(">6H")
_A, _IN = 1, 1
_NO_SUCH_NAME = 3
_TTL_S = 1


def answer(query: bytes, names: dict[str, list[str]]) -> bytes:
    """Return the answer to a query: the IPv4 addresses of a name, in the order of the file."""
    number, flags, *_ = _HEADER.unpack_from(query)
    labels, at = [], _HEADER.size
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii", "replace").lower())
        at += 1 + query[at]
    kind, _class = struct.unpack_from(">2H", query, at + 1)
    question = query[_HEADER.size : at + 5]
    addresses = names.get(".".join(labels))
    records = b"".join(
        struct.pack(">3HIH", 0xC00C, _A, _IN, _TTL_S, 4) + socket.inet_aton(address)
        for address in (addresses or [])
        if kind == _A
    )
    code = _NO_SUCH_NAME if addresses is None else 0
    reply = 0x8080 | (flags & 0x0100) | code  # a response, recursion available
    return _HEADER.pack(number, reply, 1, len(records) // 16, 0, 0) + question + records


def serve(address: str, file: Path) -> None:
    """Answer queries until the process is ended."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))
        while True:
            query, sender = server.recvfrom(4096)
            try:
                reply = answer(query, json.loads(file.read_text()))
            except (ValueError, IndexError, struct.error):
                continue
            server.sendto(reply, sender)


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]))
