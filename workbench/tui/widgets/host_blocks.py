"""Rows in blocks: a line with lines below it, and more of them where the block is opened."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from .lines import Line, Span, wrap


@dataclass(frozen=True, slots=True)
class Block:
    """``id`` is unique and stable. ``body`` is always shown, ``more`` only where the block is opened.

    ``what`` and ``value`` are what copying gives. ``more`` and ``value`` may be functions, called when they are
    wanted. ``use`` is an extension's, ``run_id`` that of a workflow run.
    """

    id: str
    head: Line
    body: Sequence[Line] = ()
    more: Sequence[Line] | Callable[[], Sequence[Line]] = ()
    what: str = ""
    value: str | Callable[[], str] = ""
    use: str | None = None
    run_id: str | None = None

    def opened(self) -> Sequence[Line]:
        """The lines of ``more``."""
        return self.more() if callable(self.more) else self.more


class BlockRows:
    """The lines of blocks. Ids of rows are the block's, and the block's with a number below it.

    With ``apart`` an empty line ends each block but the last.
    """

    def __init__(self, blocks: Sequence[Block], opened: Collection[str] = (), *, apart: bool = False) -> None:
        self._rows: list[tuple[Block, int, Line]] = []
        self._texts: dict[str, str] = {}
        for place, block in enumerate(blocks, 1):
            lines = [block.head, *block.body, *(block.opened() if block.id in opened else ())]
            if apart and place < len(blocks):
                lines.append((Span(""),))
            self._rows += [(block, number, line) for number, line in enumerate(lines)]

    def __len__(self) -> int:
        return len(self._rows)

    def block(self, index: int) -> Block:
        """The block that the row belongs to."""
        return self._rows[index][0]

    def row_id(self, index: int) -> str:
        block, number, _ = self._rows[index]
        return f"{block.id}\n{number}" if number else block.id

    def line(self, index: int, width: int) -> Line:
        return self._rows[index][2]

    def text(self, index: int) -> str:
        """That of the whole block, so that a filter leaves blocks whole."""
        block = self._rows[index][0]
        text = self._texts.get(block.id)
        if text is None:
            lines = (block.head, *block.body, *(() if callable(block.more) else block.more))
            text = self._texts[block.id] = "\n".join("".join(span.text for span in line) for line in lines)
        return text

    def copied(self, index: int) -> tuple[str, str]:
        block = self._rows[index][0]
        return block.what, block.value() if callable(block.value) else block.value


def indented(text: str, width: int, tone: str = "", indent: int = 2) -> list[Line]:
    """``text``, inert, over as many lines as it takes below a head."""
    room = max(10, width - indent)
    return [(Span(" " * indent), Span(line, tone)) for line in wrap(text, room)]


def labelled(label: str, text: str, width: int, tone: str = "", size: int = 15) -> list[Line]:
    """``text`` behind a quiet label of ``size`` cells; further lines stand below its first."""
    lines = wrap(text, max(10, width - size - 2))
    return [
        (Span(f"  {label if not number else '':<{size}}", "quiet"), Span(line, tone))
        for number, line in enumerate(lines)
    ]
