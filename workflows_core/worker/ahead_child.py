"""Reading and writing in larger pieces, for a worker whose input lies ahead. Sent after ``child.py``, like it.

What is read and run is the same, frame by frame. What the worker says is held back until there is enough of it, or
until it has to wait for input: a worker that is killed in between has said less than it has done, so whoever needs
to know how far it came runs a plain one.
"""

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

PIECE = 32 * 1024

_incoming = bytearray()
_outgoing = bytearray()


def flush() -> None:
    while _outgoing:
        del _outgoing[: posix.write(1, _outgoing)]


def read_exactly(size: int) -> bytes:
    """``size`` bytes of input; what there is to say is said before waiting for it."""
    while len(_incoming) < size:
        flush()
        more = posix.read(0, 2 * PIECE)
        if not more:
            posix._exit(0)
        _incoming.extend(more)
    data = bytes(_incoming[:size])
    del _incoming[:size]
    return data


def write(data: bytes) -> None:
    _outgoing.extend(data)
    if len(_outgoing) >= PIECE:
        flush()


def stop(status: int, reason: str) -> "NoReturn":
    """Leave at once, having said everything; the reason goes to standard error, which the parent drains."""
    try:
        flush()
        posix.write(2, reason.encode("utf-8", "replace")[:1000])
    finally:
        posix._exit(status)
