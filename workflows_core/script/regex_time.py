"""Whether a regular expression can take exponential time.

A backtracking engine does so where two different ways lead from one position of the pattern back to it over the
same text. The pattern becomes an automaton whose states are the characters of the pattern; two ways are found
as a pair of states that separates and meets again, or as two silent ways between the same states.
"""

from __future__ import annotations

from functools import lru_cache

from .regex_syntax import Chars, Choice, Look, Part, Ranges, Repeat, Sequence, Unreadable, parse_pattern

#: Bounded repetition beyond this is treated as unbounded: ten to the tenth is not a bound that helps.
_FEW = 8
_MOST_STATES = 400
_MOST_STEPS = 60_000


class _TooLarge(Exception):
    pass


class _State:
    """A silent state, or one that reads a character of ``ranges``."""

    __slots__ = ("chars", "loops", "mask", "to")

    def __init__(self, chars: Chars | None, loops: tuple[Repeat, ...]) -> None:
        self.chars = chars
        self.loops = loops
        self.mask = 0
        self.to: list[_State] = []


@lru_cache(maxsize=128)
def exponential_part(pattern: str, flags: str = "") -> str | None:
    """The repeated part of ``pattern`` that makes it exponential, or None where nothing was found.

    Patterns that cannot be read, or are too large to decide, give None.
    """
    try:
        part = parse_pattern(pattern, flags)
        bodies: list[Part] = [part]
        for body in bodies:
            loop = _search(body, bodies)
            if loop is not None:
                return pattern[loop.start : loop.end]
    except (Unreadable, _TooLarge, RecursionError):
        return None
    return None


def _search(part: Part, bodies: list[Part]) -> Repeat | None:
    automaton = _Automaton(bodies)
    automaton.add(part, (), _State(None, ()), _State(None, ()))
    readers = [state for state in automaton.states if state.chars is not None]
    _assign_masks(readers)
    follow = {state: _follow(state) for state in readers}
    for group in _cycles(readers, follow):
        if _ambiguous(group, follow):
            shared = [loop for loop in group[0].loops if all(loop in state.loops for state in group)]
            unbounded = [loop for loop in shared if loop.most is None or loop.most > _FEW]
            if unbounded:
                return unbounded[0]
    return None


class _Automaton:
    def __init__(self, bodies: list[Part]) -> None:
        self.states: list[_State] = []
        self.bodies = bodies

    def state(self, chars: Chars | None, loops: tuple[Repeat, ...]) -> _State:
        state = _State(chars, loops)
        self.states.append(state)
        if len(self.states) > _MOST_STATES:
            raise _TooLarge
        return state

    def add(self, part: Part, loops: tuple[Repeat, ...], start: _State, end: _State) -> None:
        """Connect ``start`` to ``end`` by what ``part`` reads."""
        if isinstance(part, Chars):
            reader = self.state(part, loops)
            start.to.append(reader)
            reader.to.append(end)
        elif isinstance(part, Sequence):
            for item in part.parts:
                after = self.state(None, loops)
                self.add(item, loops, start, after)
                start = after
            start.to.append(end)
        elif isinstance(part, Choice):
            for option in part.options:
                self.add(option, loops, start, end)
        elif isinstance(part, Look):
            if part.body not in self.bodies:
                self.bodies.append(part.body)
            start.to.append(end)
        else:
            self.repeat(part, loops, start, end)

    def repeat(self, part: Repeat, loops: tuple[Repeat, ...], start: _State, end: _State) -> None:
        unbounded = part.most is None or part.most > _FEW
        inner = (*loops, part)
        for _ in range(min(part.least, 3) if unbounded else part.least):
            after = self.state(None, inner)
            self.add(part.body, inner, start, after)
            start = after
        if unbounded:
            # A state before each round and another after it: so the way around and the way in stay apart.
            before, after = self.state(None, inner), self.state(None, inner)
            start.to.extend((before, end))
            self.add(part.body, inner, before, after)
            after.to.extend((before, end))
            return
        for _ in range((part.most or 0) - part.least):
            after = self.state(None, inner)
            start.to.append(end)
            self.add(part.body, inner, start, after)
            start = after
        start.to.append(end)


def _assign_masks(readers: list[_State]) -> None:
    """One bit for each region of characters that the pattern tells apart; one of its own for back references."""
    sets: list[Ranges] = [state.chars.ranges for state in readers if state.chars is not None]
    cuts = sorted({edge for ranges in sets for low, high in ranges for edge in (low, high + 1)})
    bit = 1 << len(cuts)
    for state in readers:
        assert state.chars is not None
        if state.chars.unique:
            state.mask = bit
            bit <<= 1
            continue
        for index, cut in enumerate(cuts):
            if any(low <= cut <= high for low, high in state.chars.ranges):
                state.mask |= 1 << index


def _follow(state: _State) -> dict[_State, int]:
    """The readers that may come next, each with the number (1 or 2, for more) of silent ways to it."""
    found: dict[_State, int] = {}
    steps = 0
    stack: list[tuple[_State, frozenset[_State]]] = [(after, frozenset()) for after in state.to]
    while stack:
        steps += 1
        if steps > 4000:
            raise _TooLarge
        at, passed = stack.pop()
        if at.chars is not None:
            found[at] = min(found.get(at, 0) + 1, 2)
        elif at not in passed:
            stack.extend((after, passed | {at}) for after in at.to)
    return found


def _cycles(readers: list[_State], follow: dict[_State, dict[_State, int]]) -> list[list[_State]]:
    """Groups of readers that reach each other."""
    reach = {state: _reached(state, follow) for state in readers}
    groups: list[list[_State]] = []
    seen: set[_State] = set()
    for state in readers:
        if state in seen or state not in reach[state]:
            continue
        group = [other for other in readers if other in reach[state] and state in reach[other]]
        seen.update(group)
        groups.append(group)
    return groups


def _reached(state: _State, follow: dict[_State, dict[_State, int]]) -> set[_State]:
    found: set[_State] = set()
    stack = list(follow[state])
    while stack:
        at = stack.pop()
        if at not in found:
            found.add(at)
            stack.extend(follow[at])
    return found


def _ambiguous(group: list[_State], follow: dict[_State, dict[_State, int]]) -> bool:
    members = set(group)
    inner = {
        state: [(after, ways) for after, ways in follow[state].items() if after in members] for state in group
    }
    if any(ways > 1 for edges in inner.values() for _, ways in edges):
        return True
    # Pairs that two copies of the automaton reach over the same text, starting together and then apart.
    steps = 0
    for state in group:
        edges = inner[state]
        apart = [
            (one, other)
            for index, (one, _) in enumerate(edges)
            for other, _ in edges[index + 1 :]
            if one.mask & other.mask
        ]
        seen = set(apart)
        while apart:
            one, other = apart.pop()
            for next_one, _ in inner[one]:
                for next_other, _ in inner[other]:
                    steps += 1
                    if steps > _MOST_STEPS:
                        raise _TooLarge
                    if not next_one.mask & next_other.mask:
                        continue
                    if next_one is state and next_other is state:
                        return True
                    if (next_one, next_other) not in seen:
                        seen.add((next_one, next_other))
                        apart.append((next_one, next_other))
    return False
