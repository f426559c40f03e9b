"""Frames between a worker of Troupe and this process (docs/formats.md)."""

from __future__ import annotations

import array
import select
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from troupe.errors import Error

VERSION = 1

HELLO, GRADIENT, RETURNED, SCORED = range(1, 5)
WELCOME, MEMORY, LEASE, WITHDRAWN, WEIGHTS, CANCELLED, END, FORGOTTEN, SCORE = range(65, 74)

_HEADER = struct.Struct("<IIQ")


class Body:
    """Reads a body: little-endian numbers and texts, one after another."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, form: str) -> tuple:
        what = struct.Struct("<" + form)
        out = what.unpack_from(self._data, self._at)
        self._at += what.size
        return out

    def number(self, form: str) -> int:
        return self.take(form)[0]

    def text(self) -> str:
        size = self.number("I")
        out = self._data[self._at : self._at + size]
        self._at += size
        return out.decode(errors="replace")


@dataclass
class Frame:
    kind: int
    number: int
    body: Body
    files: list[int] = field(default_factory=list)


def text(what: str) -> bytes:
    data = what.encode()
    return struct.pack("<I", len(data)) + data


def metrics(found: Mapping[str, float]) -> bytes:
    """Numbers with names."""
    out = struct.pack("<I", len(found))
    for name, value in found.items():
        out += text(name) + struct.pack("<d", value)
    return out


class Connection:
    """One end of the socket. For one thread."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def send(self, kind: int, number: int, body: bytes = b"") -> None:
        try:
            self._line.sendall(_HEADER.pack(kind, len(body), number) + body)
        except OSError:
            pass  # What the other end said before it closed is read next.

    def waits(self) -> bool:
        """Whether a frame, or the end, can be read at once."""
        return bool(select.select([self._line], [], [], 0)[0])

    def receive(self) -> Frame | None:
        """The next frame; None when the other end has closed."""
        files = array.array("i")
        space = socket.CMSG_SPACE(files.itemsize)
        try:
            head, passed, _, _ = self._line.recvmsg(
                _HEADER.size, space, socket.MSG_WAITALL | socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionError:
            return None
        for level, kind, data in passed:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                files.frombytes(data[: len(data) - len(data) % files.itemsize])
        if not head:
            return None
        if len(head) < _HEADER.size:
            raise Error("the worker ended in the middle of a frame")
        kind, size, number = _HEADER.unpack(head)
        body = self._line.recv(size, socket.MSG_WAITALL) if size else b""
        if len(body) < size:
            raise Error("the worker ended in the middle of a frame")
        return Frame(kind, number, Body(body), list(files))

    def close(self) -> None:
        self._line.close()
