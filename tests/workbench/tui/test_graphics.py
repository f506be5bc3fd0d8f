"""What a terminal can draw, and the sequences for it, read back as a terminal would."""

from __future__ import annotations

import ast
import base64
import fcntl
import importlib.util
import os
import pty
import re
import select
import struct
import termios
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from workbench.preview import Picture
from workbench.tui import graphics
from workbench.tui.graphics import Graphics, Protocol, detect
from workbench.tui.widgets.page_rows import KittyPage, SixelPage

KITTY = b"\x1b_Gi=4211;OK\x1b\\\x1b[6;40;20t\x1b[?62;52;c"
SIXEL = b"\x1b[6;24;12t\x1b[?62;4;22c"
NEITHER = b"\x1b[?62;22c"
TRUE_COLOUR = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
Ask = Callable[..., Graphics]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """``ask(answer, pixels=(800, 480), **environment)``: what is detected where the terminal answers so."""
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    monkeypatch.setattr(graphics, "_descriptors", lambda: (slave, slave))

    def run(
        answer: bytes, pixels: tuple[int, int] = (800, 480), patience: float = 5.0, **environment: str
    ) -> Graphics:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, *pixels))
        stop = threading.Event()

        def terminal() -> None:
            asked = b""
            while not stop.is_set():
                if select.select([master], [], [], 0.02)[0]:
                    asked += os.read(master, 1024)
                if asked.endswith(b"\x1b[c"):
                    os.write(master, answer)
                    asked = b""

        thread = threading.Thread(target=terminal)
        thread.start()
        try:
            return detect({**TRUE_COLOUR, **environment}, patience=patience)
        finally:
            stop.set()
            thread.join()
            assert termios.tcgetattr(slave) == before

    yield run
    os.close(slave)
    os.close(master)


class TestDetecting:
    @pytest.mark.parametrize(
        ("answer", "protocol", "cell"),
        [
            (KITTY, Protocol.KITTY, (20, 40)),
            (SIXEL, Protocol.SIXEL, (12, 24)),
            (KITTY.replace(b"?62;", b"?62;4;"), Protocol.SIXEL, (20, 40)),
            (b"\x1b[?62;4c", Protocol.SIXEL, (10, 20)),
            (b"typed" + SIXEL, Protocol.SIXEL, (12, 24)),
            (NEITHER, None, (0, 0)),
            (b"\x1b[?4c", None, (0, 0)),
            (b"\x1b_Gi=4211;ENOTSUPPORTED\x1b\\" + NEITHER, None, (0, 0)),
        ],
    )
    def test_a_terminal_says_what_it_draws(
        self, ask: Ask, answer: bytes, protocol: Protocol | None, cell: tuple[int, int]
    ) -> None:
        found = ask(answer)
        assert (found.protocol, found.cell) == (protocol, cell)

    def test_one_that_never_answers_is_not_waited_for(self, ask: Ask) -> None:
        assert ask(b"", patience=0.05).protocol is None
        assert ask(b"x" * 200, patience=0.05).protocol is None

    @pytest.mark.parametrize(
        ("environment", "why"),
        [
            ({"NO_COLOR": "1"}, "colours are turned off"),
            ({"TERM": "dumb"}, "draws no pictures"),
            ({"COLORTERM": ""}, "24-bit colours"),
        ],
    )
    def test_what_the_environment_rules_out(self, ask: Ask, environment: dict[str, str], why: str) -> None:
        found = ask(KITTY, **environment)
        assert found.protocol is None and why in found.why

    def test_without_the_encoder_it_says_so(self, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(graphics, "find_spec", lambda name: None)
        found = ask(SIXEL)
        assert found.protocol is None and "textual-image" in found.why

    def test_a_terminal_that_does_not_tell_its_pixels_is_asked_nothing(
        self, ask: Ask, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(graphics, "_ask", lambda patience: pytest.fail("it was asked"))
        assert ask(KITTY, pixels=(0, 0)).protocol is None

    def test_no_terminal_is_asked_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(graphics, "_descriptors", lambda: None)
        assert detect(TRUE_COLOUR).protocol is None

    def test_letters_of_another_size_are_noticed(self, ask: Ask) -> None:
        found = ask(b"\x1b[?62;4c")
        assert found.now().cell == (10, 20)
        fixed = ask(SIXEL)
        assert fixed.now() is fixed


def picture(width: int, height: int) -> Picture:
    """No two neighbouring pixels alike."""
    pixels = bytes(
        value for y in range(height) for x in range(width) for value in (x % 256, y % 256, (x * y) % 256)
    )
    return Picture(width, height, pixels)


class Kitty:
    """A terminal's memory of pictures, filled by the sequences of the protocol."""

    MESSAGE = re.compile(r"\x1b_G([^;\x1b]*)(?:;([A-Za-z0-9+/=]*))?\x1b\\")

    def __init__(self) -> None:
        self.pictures: dict[int, tuple[dict[str, str], bytes]] = {}
        #: How many have ever come.
        self.sent = 0
        self._open: tuple[dict[str, str], str] | None = None

    def feed(self, sequences: str) -> str:
        """Take the messages out of ``sequences``; what is left is no message."""
        for control, payload in self.MESSAGE.findall(sequences):
            keys = dict(part.split("=", 1) for part in control.split(","))
            if keys.get("a") == "q":
                continue
            if keys.get("a") == "d":
                self.pictures.pop(int(keys["i"]), None)
                continue
            if self._open is None:
                self._open = keys, ""
            head, data = self._open
            self._open = head, data + payload
            if keys["m"] == "0":
                self.pictures[int(head["i"])] = head, zlib.decompress(base64.b64decode(data + payload))
                self._open = None
                self.sent += 1
        return self.MESSAGE.sub("", sequences)


class TestKitty:
    def test_a_picture_arrives_whole_in_tiles_and_leaves_again(self) -> None:
        cell, grid = (10, 20), (60, 40)
        drawn = picture(595, 790)
        page = KittyPage(drawn, grid, cell)
        terminal = Kitty()
        assert terminal.feed(page.opening()) == ""
        assert page.opening() == ""
        assert len(terminal.pictures) == 4
        marks = graphics._MARKS
        canvas = bytearray(600 * 800 * 3)
        for row in range(grid[1]):
            cells = list(page.segments(row, 0, grid[0]))
            assert len(cells) == grid[0]
            for column, segment in enumerate(cells):
                assert segment.style is not None and segment.style.color is not None
                colour = segment.style.color.triplet
                assert colour is not None
                head, pixels = terminal.pictures[(colour.red << 16) + (colour.green << 8) + colour.blue]
                across, down = int(head["s"]), int(head["v"])
                assert (across, down) == (int(head["c"]) * cell[0], int(head["r"]) * cell[1])
                y0, x0 = marks.index(segment.text[1]) * cell[1], marks.index(segment.text[2]) * cell[0]
                for y in range(cell[1]):
                    start = ((y0 + y) * across + x0) * 3
                    to = ((row * cell[1] + y) * 600 + column * cell[0]) * 3
                    canvas[to : to + cell[0] * 3] = pixels[start : start + cell[0] * 3]
        for y in range(drawn.height):
            assert canvas[y * 1800 : y * 1800 + 595 * 3] == drawn.pixels[y * 595 * 3 : (y + 1) * 595 * 3]
        terminal.feed(page.closing())
        assert terminal.pictures == {}

    def test_a_part_of_a_row(self) -> None:
        page = KittyPage(picture(100, 40), (10, 2), (10, 20))
        whole = [segment.text for segment in page.segments(1, 0, 10)]
        assert [segment.text for segment in page.segments(1, 4, 99)] == whole[4:]

    def test_the_marks_are_those_of_the_protocol(self) -> None:
        spec = importlib.util.find_spec("textual_image")
        assert spec is not None and spec.origin is not None
        source = (Path(spec.origin).parent / "renderable" / "tgp.py").read_text("utf-8")
        table = next(
            ast.literal_eval(node.value)
            for node in ast.parse(source).body
            if isinstance(node, ast.Assign) and "DIACRITIC" in ast.unparse(node.targets[0])
        )
        assert [ord(mark) for mark in graphics._MARKS] == table[: len(graphics._MARKS)]
        assert len(graphics._MARKS) >= max(graphics.TILE)


_SIXELS = re.compile(r'\x1bP0;0;0q"1;1;(\d+);(\d+)([#-~$!-]*)\x1b\\')


def unsixel(sixels: str) -> list[list[tuple[int, int, int]]]:
    """The pixels that a terminal would draw, in the hundredths of the protocol."""
    match = _SIXELS.fullmatch(sixels)
    assert match is not None, sixels[:80]
    width, height = int(match[1]), int(match[2])
    rows = [[(0, 0, 0)] * width for _ in range(-(-height // 6) * 6)]
    colours: dict[int, tuple[int, int, int]] = {}
    colour = x = y = 0
    for token in re.findall(r"#\d+;2;\d+;\d+;\d+|#\d+|!\d+.|[$-]|[?-~]", match[3]):
        if token.startswith("#"):
            colour, *values = (int(part) for part in token[1:].split(";"))
            if values:
                colours[colour] = (values[1], values[2], values[3])
        elif token in "$-":
            x, y = 0, y + 6 * (token == "-")
        else:
            count, bits = (int(token[1:-1]), ord(token[-1]) - 63) if token[0] == "!" else (1, ord(token) - 63)
            for step in range(count):
                for bit in range(6):
                    if bits >> bit & 1:
                        rows[y + bit][x + step] = colours[colour]
            x += count
    return rows[:height]


class TestSixel:
    def test_each_row_is_a_picture_of_its_cells(self) -> None:
        pixels = bytes(
            value
            for y in range(50)
            for x in range(64)
            for value in ((255, 0, 0) if (x // 8 + y // 5) % 2 else (0, 0, 255))
        )
        page = SixelPage(Picture(64, 50, pixels), (8, 20))
        rows: list[list[tuple[int, int, int]]] = []
        for row in range(3):
            assert not page.ready(row, 0, 99)
            rows += unsixel(page.sixels(row, 0, 99))
            assert page.ready(row, 0, 99)
        assert len(rows) == 50
        for y, line in enumerate(rows):
            assert line == [(100, 0, 0) if (x // 8 + y // 5) % 2 else (0, 0, 100) for x in range(64)]
        part = unsixel(page.sixels(0, 2, 4))
        assert part == [line[16:32] for line in rows[:20]]

    def test_past_the_edge_there_is_nothing(self) -> None:
        page = SixelPage(Picture(8, 20, bytes(480)), (8, 20))
        assert page.sixels(0, 5, 9) == "" and page.sixels(3, 0, 9) == ""

    def test_it_is_drawn_at_its_place_and_the_cursor_comes_back(self) -> None:
        assert graphics.at(4, 2, "S") == "\x1b7\x1b[3;5HS\x1b8"
