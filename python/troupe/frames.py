"""Frames between a worker of Troupe and this process (docs/formats.md)."""

from __future__ import annotations

import array
import os
import select
import socket
import struct
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from troupe.errors import Error

VERSION = 7

HELLO, GRADIENT, RETURNED, SCORED, PAUSED, RESUMED, TRIED, FAILED, STEPPED = range(1, 10)
WELCOME, MEMORY, LEASE, WITHDRAWN, WEIGHTS, CANCELLED, END, FORGOTTEN, SCORE = range(65, 74)
LAST, PLACE, TRIAL, GPU_MEMORY, STOPPING = range(74, 79)

_HEADER = struct.Struct("<IIQ")


class Body:
    """Reads a body: little-endian numbers and texts, one after another."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, form: str) -> tuple:
        form = "<" + form
        out = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
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


def text(what: str) -> bytes:
    data = what.encode()
    return struct.pack("<I", len(data)) + data


def metrics(found: Mapping[str, float]) -> bytes:
    """Metrics, as a frame has them: numbers with names."""
    out = struct.pack("<I", len(found))
    for name, value in found.items():
        out += text(name) + struct.pack("<d", value)
    return out


def hello(samples: int = 0, leases: int = 0, dataset_id: str = "") -> bytes:
    """The body of the first frame, up to the GPU. An evaluator has no data set."""
    return struct.pack("<QI", samples, leases) + text(dataset_id)


#: Bytes that one call asks for: enough for all frames of a step.
_AT_ONCE = 1 << 16


class Connection:
    """One end of the socket. For one thread."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._data = b""  # Received bytes; those from `_at` on are still to be read.
        self._at = 0
        self._ended = False
        #: Open files that came with frames, in their order: one for each of
        #: kind MEMORY.
        self.files: deque[int] = deque()

    def send(self, kind: int, number: int, body: bytes = b"") -> None:
        try:
            self._line.sendall(_HEADER.pack(kind, len(body), number) + body)
        except OSError:
            pass  # What the other end said before it closed is read next.

    def waits(self) -> bool:
        """Whether a frame, or the end, can be read at once."""
        if self._missing() > 0 and select.select([self._line], [], [], 0)[0]:
            self._read()
        return self._ended or self._missing() <= 0

    def receive(self) -> Frame | None:
        """The next frame; None when the other end has closed."""
        while self._missing() > 0:
            if self._ended:
                if self._at < len(self._data):
                    raise Error("trainer_node ended while it sent data")
                return None
            self._read()
        kind, size, number = _HEADER.unpack_from(self._data, self._at)
        begin = self._at + _HEADER.size
        self._at = begin + size
        return Frame(kind, number, Body(self._data[begin : self._at]))

    def _missing(self) -> int:
        """Bytes that the next frame still lacks, as far as is known."""
        there = len(self._data) - self._at
        if there < _HEADER.size:
            return _HEADER.size - there
        return _HEADER.size + _HEADER.unpack_from(self._data, self._at)[1] - there

    def _read(self) -> None:
        """Takes what has come; waits if nothing has."""
        space = socket.CMSG_SPACE(array.array("i").itemsize)
        most = max(self._missing(), _AT_ONCE)
        try:
            more, passed, _, _ = self._line.recvmsg(most, space, socket.MSG_CMSG_CLOEXEC)
        except ConnectionError:
            more, passed = b"", []
        for level, kind, data in passed:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                files = array.array("i")
                files.frombytes(data[: len(data) - len(data) % files.itemsize])
                self.files.extend(files)
        self._ended = not more
        self._data = self._data[self._at :] + more
        self._at = 0

    def close(self) -> None:
        self._line.close()
        while self.files:
            os.close(self.files.popleft())
