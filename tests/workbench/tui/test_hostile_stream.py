"""Demand 11: every screen with hostile text in every place, on a real terminal; the whole stream is judged."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.workbench.tui.everywhere import encodable
from tests.workbench.tui.hostile import PAYLOADS
from tests.workbench.tui.stream import foreign
from tests.workbench.tui.terminal import Terminal
from workbench.inert import inert

#: Keys that lead through each screen, its tabs and its dialogs.
WALK = {
    "Author": "f2 down down enter f1 escape ctrl+t escape",
    "Runs": "f3 enter 1 enter pagedown 2 3 4 enter end 5 6 7 y n escape escape d escape",
    "Review": "f4 enter 2 3 4 5 E escape escape down enter 2 3 = escape down enter escape down enter escape s enter 2",
    "Replay": "f5 down down enter tab tab tab v escape slash x escape",
    "Host": "f6 tab 1 enter end 2 enter end 3 enter end 4 enter 5 end 6 enter end 7 enter L n escape",
}
KEYS = {
    "escape": b"\x1b", "enter": b"\r", "tab": b"\t", "down": b"\x1b[B", "end": b"\x1b[F", "pagedown": b"\x1b[6~",
    "slash": b"/", "ctrl+t": b"\x14", "f1": b"\x1bOP", "f2": b"\x1bOQ", "f3": b"\x1bOR", "f4": b"\x1bOS",
    "f5": b"\x1b[15~", "f6": b"\x1b[17~",
}  # fmt: skip
_SEQUENCES = re.compile(rb"\x1b(?:\][^\x07]*\x07|_[^\x1b]*\x1b\\|\[[0-?]*[ -/]*[@-~]|[78])")
#: How often a walk is begun anew where something was still being read on the way.
ROUNDS = 8
#: Payloads that may stand only where no walk scrolls to.
HIDDEN = len(PAYLOADS) // 3
Walk = Callable[[int, int, tuple[int, int], str], bytes]


def not_drawn(seen: bytes, payloads: Sequence[str]) -> list[str]:
    """The payloads that do not stand, as text, in what reached the terminal. Some break a line and have no form."""
    text = _SEQUENCES.sub(b"", seen).decode("utf-8", "replace")
    whole = [payload for payload in encodable(payloads) if not set(payload) & set("\n\u2028\u2029")]
    return [payload for payload in whole if inert(payload)[:8] not in text]


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    """``walk(first, last, size, screen)``: what reaches a terminal on a walk with these payloads everywhere."""
    terminals: list[Terminal] = []

    def run(first: int, last: int, size: tuple[int, int], screen: str) -> bytes:
        root = tmp_path / f"place-{len(terminals)}"
        root.mkdir()
        terminal = Terminal(
            f"{first}:{last}", root, columns=size[0], rows=size[1], module="tests.workbench.tui.everywhere"
        )
        terminals.append(terminal)
        terminal.read_until("Author", "Host")
        terminal.quiet()
        for _ in range(ROUNDS):
            for key in WALK[screen].split():
                terminal.press(KEYS.get(key, key.encode()))
                terminal.answered()
            terminal.quiet()
            if len(not_drawn(terminal.seen, PAYLOADS[first:last])) <= HIDDEN or size[1] < 400:
                break
        os.kill(terminal.process.pid, signal.SIGTERM)
        assert terminal.finish() == 128 + signal.SIGTERM
        return terminal.seen

    yield run
    for terminal in terminals:
        terminal.close()


def test_i13_the_judge_knows_a_payload_from_what_the_program_writes() -> None:
    for payload in PAYLOADS:
        if payload != "\n" and inert(payload) != payload:
            assert foreign(payload), repr(payload)
            assert foreign(payload, screens=False), repr(payload)
        assert not foreign(inert(payload))


@pytest.mark.parametrize("screen", WALK)
def test_i13_nothing_but_ours_reaches_a_terminal(walk: Walk, screen: str) -> None:
    seen = walk(0, len(PAYLOADS), (160, 420), screen)
    assert foreign(seen) == []
    assert len(not_drawn(seen, PAYLOADS)) <= HIDDEN, "the payloads were drawn, as text"


@pytest.mark.soak
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["small", "large"])
@pytest.mark.parametrize("first", range(0, len(PAYLOADS), 40))
@pytest.mark.parametrize("screen", WALK)
def test_i13_every_payload_in_every_place_at_every_size(
    walk: Walk, screen: str, first: int, size: tuple[int, int]
) -> None:
    assert foreign(walk(first, first + 40, size, screen)) == []
