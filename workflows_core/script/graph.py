"""Graphs of blocks, one for each function of a script.

A block holds events in the order in which they happen. ``succ`` are the blocks that may follow; ``fail`` are
the handlers that an exception at the block's first event leads to, before that event has taken effect.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from .tree import Node

EventKind = Literal["call", "run", "use"]


class Block:
    """Events that happen one after the other. An event is (kind, node, function): an API call, a call of a
    function of the script, or a use of such a function as a value."""

    __slots__ = ("events", "fail", "succ")

    def __init__(self) -> None:
        self.events: list[tuple[EventKind, Node, Node | None]] = []
        self.succ: list[Block] = []
        self.fail: list[Block] = []


class Graph:
    """The blocks of one function; ``at`` tells in which blocks a statement or an API call begins."""

    def __init__(self, function: Node | None) -> None:
        self.function = function
        self.entry = Block()
        self.end = Block()
        self.at: dict[Node, list[Block]] = {}
        self.reachable: frozenset[Block] = frozenset()

    def reaches(self, node: Node) -> bool:
        """Whether some path from the function's start reaches ``node``."""
        return any(block in self.reachable for block in self.at.get(node, ()))

    def repeats(self, node: Node) -> bool:
        """Whether ``node`` can happen again after it has happened, within one run of the function."""
        blocks = [block for block in self.at.get(node, ()) if block in self.reachable]
        return any(block in closure([*block.succ, *block.fail]) for block in blocks)


def closure(start: Iterable[Block]) -> set[Block]:
    """The blocks that can be reached from ``start``, itself included."""
    found = set(start)
    stack = list(found)
    while stack:
        block = stack.pop()
        for after in (*block.succ, *block.fail):
            if after not in found:
                found.add(after)
                stack.append(after)
    return found
