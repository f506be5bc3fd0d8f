"""Control flow of a script: the graphs of its functions, and which of the functions anything can call."""

from __future__ import annotations

from .analysis import Analysis
from .graph import Graph
from .graph_builder import GraphBuilder
from .tree import Node

_MOST_BLOCKS = 20_000


class Flow:
    """The graphs of all functions of a script, and which of the functions anything can call."""

    def __init__(self, analysis: Analysis) -> None:
        """Raises FlowTooLarge or RecursionError for a script too large or too deep to follow."""
        self.graphs: dict[Node | None, Graph] = {}
        budget = [_MOST_BLOCKS]
        for function in (None, *analysis.functions):
            self.graphs[function] = GraphBuilder(analysis, function, budget).build()
        self.live: set[Node | None] = {None}
        waiting: list[Node | None] = [None]
        while waiting:
            for block in self.graphs[waiting.pop()].reachable:
                for _, _, function in block.events:
                    if function is not None and function not in self.live:
                        self.live.add(function)
                        waiting.append(function)

    def reaches(self, node: Node, function: Node | None) -> bool:
        """Whether a run can reach ``node`` of ``function``."""
        return function in self.live and self.graphs[function].reaches(node)
