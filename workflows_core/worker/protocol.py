"""Frames between the engine and a worker, for both sides.

A frame is one byte of kind, four bytes of payload length (big-endian) and the payload. The child process runs
this module as source text of its own (``process.py`` sends it over), so nothing may be imported here and only
built-in types are used.

Set-up, engine to worker: LIMITS (decimal numbers, see ``LimitNumbers``), LIBRARY (path of the engine's shared
library), PRELUDE, SCRIPT, then ARGS (a run) or COMPILE (only judge the script). The worker answers READY, or
PROBLEM (canonical JSON: message, line, column).

A turn starts with GO, or with RESPONSE frames of which the last is RESPONSE_LAST. The worker answers with any
number of REQUEST and at most one END, each preceded by PLACES, and closes the turn with IDLE (outstanding
calls and executed jobs, in decimal).
"""

LIMITS = 76  # L
LIBRARY = 77  # M
PRELUDE = 74  # J
SCRIPT = 83  # S
ARGS = 65  # A
COMPILE = 67  # C
GO = 71  # G
RESPONSE = 114  # r
RESPONSE_LAST = 82  # R

READY = 89  # Y
PROBLEM = 66  # B
PLACES = 80  # P
REQUEST = 81  # Q
END = 69  # E
IDLE = 73  # I

HEADER_BYTES = 5
#: The largest payload of a frame in a turn, in bytes, in both directions.
FRAME_BYTES = 48 * 1024
#: The most bytes of all payloads of a turn; the prelude stops a script well before.
TURN_BYTES = 4 * 1024 * 1024
#: The largest payload of a set-up frame: an instrumented script is longer than the script it came from.
SETUP_BYTES = 1024 * 1024
SETUP_KINDS = (LIMITS, LIBRARY, PRELUDE, SCRIPT, ARGS, COMPILE)

#: Line numbers that the prelude and the script start from, so that a stack tells whose frame is whose.
PRELUDE_LINES = 20_000
SCRIPT_LINES = 24_000

#: Exit codes of the child.
EXIT_PROTOCOL = 70
EXIT_MEMORY = 71


class FrameRefused(Exception):
    """The other side broke the protocol. ``str()`` says how."""


def pack(kind: int, payload: bytes) -> bytes:
    """Header and payload as one piece, so that one write carries both."""
    return bytes((kind,)) + len(payload).to_bytes(4, "big") + payload


def length_of(header: bytes) -> int:
    """The payload length a header announces; raises FrameRefused before anything of it is read."""
    size = int.from_bytes(header[1:HEADER_BYTES], "big")
    if size > (SETUP_BYTES if header[0] in SETUP_KINDS else FRAME_BYTES):
        raise FrameRefused(f"a frame announces {size} bytes")
    return size


def split(buffer: bytearray) -> list[tuple[int, bytes]]:
    """Take every complete frame off the front of ``buffer``."""
    frames: list[tuple[int, bytes]] = []
    start = 0
    while len(buffer) - start >= HEADER_BYTES:
        end = start + HEADER_BYTES + length_of(bytes(buffer[start : start + HEADER_BYTES]))
        if len(buffer) < end:
            break
        frames.append((buffer[start], bytes(buffer[start + HEADER_BYTES : end])))
        start = end
    if start:
        del buffer[:start]
    return frames
