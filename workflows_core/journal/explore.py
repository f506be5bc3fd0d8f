"""Explorers: the same run with its results in every order, and the same run cut at every commit.

``orders`` asks whether a result or a later request depends on the order in which parallel calls happened to
finish. ``crashes`` says for each commit boundary what a recovery would do there. Both say how many cases exist
and how many they looked at.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from .. import jsontext
from ..limits import Limits
from .driving import Driven, Recorded, drive, key_of, recorded_calls
from .frames import Frame, FrameKind, Mark
from .replay import Difference, Expand, differences
from .verify import read_start

LIMIT: Final = 100
_STATES: Final = 200_000


class OrderCase(msgspec.Struct, frozen=True):
    """An order of answers by step id, and what is then different: ``request``, ``result`` or ``worker``."""

    order: tuple[str, ...]
    what: str
    step_id: str | None
    differences: tuple[Difference, ...]


class Orders(msgspec.Struct, frozen=True):
    """``exist`` counts the possible orders of answers, None where there are too many to count; ``ran`` those that
    were run. ``concurrent`` are the groups of calls that were in flight together, by step id. ``unanswered`` are the
    calls without a recorded answer: what would happen if theirs came earlier is in none of these orders.
    """

    exist: int | None
    ran: int
    concurrent: tuple[tuple[str, ...], ...]
    changed: tuple[OrderCase, ...]
    unanswered: tuple[str, ...] = ()


async def explore_orders(
    script: str,
    frames: Sequence[Frame],
    *,
    limit: int = LIMIT,
    limits: Limits | None = None,
    expand: Expand | None = None,
) -> Orders:
    """Run the script once for each order in which its recorded answers could have come, at most ``limit`` times.

    An order never gives an answer before what its call waited for. Where there are more orders than ``limit``, each
    parallel group is reversed once, and the rest is drawn at random, the same in every run.
    """
    start = read_start(frames)
    calls = recorded_calls(frames)
    recorded = [one for one in calls if one.result is not None]
    unanswered = tuple(one.label for one in calls if one.result is None)
    exist = count_orders(recorded)
    baseline: Driven | None = None
    changed: list[OrderCase] = []
    ran = 0
    for order in _orders(recorded, answer_order(frames), exist, limit):
        rank = {call_id: place for place, call_id in enumerate(order)}

        def choose(outstanding: Sequence[int], rank: dict[int, int] = rank) -> int:
            return min(outstanding, key=rank.__getitem__)

        driven = await drive(
            script, start.args_json, recorded, choose, limits=limits or start.limits, expand=expand
        )
        ran += 1
        if baseline is None:
            baseline = driven
            continue
        case = _compare(baseline, driven)
        if case is not None and case.order not in {other.order for other in changed}:
            changed.append(case)  # orders of calls that it does not ask then are one
    return Orders(exist, ran, tuple(_groups(calls)), tuple(changed), unanswered)


def _compare(baseline: Driven, driven: Driven) -> OrderCase | None:
    order = tuple(driven.order)
    if driven.died != baseline.died:
        said = Difference("", baseline.died, driven.died)
        return OrderCase(order, "worker", None, (said,))
    asked = {str(call.get("step_id", key_of(call))): call for call in baseline.calls}
    for call in driven.calls:
        name = str(call.get("step_id", key_of(call)))
        found = differences(_without_id(asked.get(name)), _without_id(call))
        if found:
            return OrderCase(order, "request", call.get("step_id"), tuple(found))
    if baseline.end != driven.end:
        return OrderCase(order, "result", None, tuple(differences(baseline.end, driven.end)))
    return None


def _without_id(call: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if call is None else {key: value for key, value in call.items() if key != "id"}


def count_orders(recorded: Sequence[Recorded]) -> int | None:
    """In how many orders the answers could have come; None where counting itself would take too long."""
    index = {one.id: place for place, one in enumerate(recorded)}
    needs = [sum(1 << index[before] for before in one.before if before in index) for one in recorded]
    whole = (1 << len(recorded)) - 1
    ways = {0: 1}
    seen = 0
    for _ in recorded:
        following: dict[int, int] = {}
        for done, count in ways.items():
            for place, need in enumerate(needs):
                if not done >> place & 1 and need & ~done == 0:
                    key = done | 1 << place
                    following[key] = following.get(key, 0) + count
        ways = following
        seen += len(ways)
        if seen > _STATES:
            return None
    return ways.get(whole, 1)


def answer_order(frames: Sequence[Frame]) -> tuple[int, ...]:
    """The ids of the answered calls in the order in which their answers were recorded."""
    return tuple(
        result["id"]
        for frame in frames
        if frame.kind is FrameKind.RESPONSE
        for result in jsontext.parse(frame.body, f"frame {frame.number}")["results"]
    )


def _orders(
    recorded: Sequence[Recorded], as_recorded: tuple[int, ...], exist: int | None, limit: int
) -> Iterator[tuple[int, ...]]:
    """Orders to run, the recorded one first: all of them, or ``limit`` that differ."""
    yield as_recorded
    if exist is not None and exist <= limit:
        yield from (order for order in _all_orders(recorded) if order != as_recorded)
        return
    rng = random.Random(0)
    seen = {as_recorded}
    for attempt in range(limit * 20):
        if len(seen) >= limit:
            return
        order = _one_order(recorded, rng, reverse=attempt == 0)
        if order not in seen:
            seen.add(order)
            yield order


def _all_orders(recorded: Sequence[Recorded]) -> Iterator[tuple[int, ...]]:
    stack: list[tuple[int, ...]] = [()]
    while stack:
        done = stack.pop()
        if len(done) == len(recorded):
            yield done
            continue
        stack += [(*done, one.id) for one in reversed(_ready(recorded, set(done)))]


def _one_order(recorded: Sequence[Recorded], rng: random.Random, *, reverse: bool) -> tuple[int, ...]:
    done: list[int] = []
    while len(done) < len(recorded):
        ready = _ready(recorded, set(done))
        chosen = ready[-1] if reverse else rng.choice(ready)
        done.append(chosen.id)
    return tuple(done)


def _ready(recorded: Sequence[Recorded], done: set[int]) -> list[Recorded]:
    known = {one.id for one in recorded}
    return [one for one in recorded if one.id not in done and not (one.before & known) - done]


def _groups(calls: Sequence[Recorded]) -> list[tuple[str, ...]]:
    """Calls that were in flight together: neither had been answered when the other was asked."""
    groups: list[tuple[str, ...]] = []
    current: list[Recorded] = []
    for one in calls:
        if current and not any(other.result is not None and other.id not in one.before for other in current):
            if len(current) > 1:
                groups.append(tuple(other.label for other in current))
            current = [other for other in current if other.result is None]  # still in flight
        current.append(one)
    if len(current) > 1:
        groups.append(tuple(other.label for other in current))
    return groups


class CrashPoint(msgspec.Struct, frozen=True):
    """A crash right after the commit ``after`` (a frame number, with ``marks`` marks), and what recovery would do.

    Lists of step ids: ``reused`` have a recorded result, ``observed`` a child run that outlives a crash, ``uncertain``
    were being admitted and need the host's knowledge, ``new`` would start.
    """

    after: int
    marks: int
    what: str
    reused: tuple[str, ...]
    observed: tuple[str, ...]
    uncertain: tuple[str, ...]
    new: tuple[str, ...]


class Crashes(msgspec.Struct, frozen=True):
    exist: int
    ran: int
    points: tuple[CrashPoint, ...]


def explore_crashes(frames: Sequence[Frame], marks: Sequence[Mark], *, limit: int = 1_000) -> Crashes:
    """What a recovery would do after each commit of a run. The frames must have passed ``verify``.

    Nothing is run: what the script asks next after a commit is what the journal says it asked. After the last
    one it is not known here.
    """
    boundaries = list(_boundaries(frames, marks))
    points = [_point(frames, marks, *boundary) for boundary in boundaries[:limit]]
    return Crashes(len(boundaries), len(points), tuple(points))


def _boundaries(frames: Sequence[Frame], marks: Sequence[Mark]) -> Iterator[tuple[int, int]]:
    """(frames, marks) that exist after each commit, in order. Frames of one turn or batch are one commit."""
    taken = 0
    for index, frame in enumerate(frames):
        while taken < len(marks) and marks[taken].after_frame <= index:
            taken += 1
            yield index, taken
        if not jsontext.parse(frame.body, f"frame {frame.number}").get("more"):
            yield index + 1, taken
    while taken < len(marks):
        taken += 1
        yield len(frames), taken


def _point(frames: Sequence[Frame], marks: Sequence[Mark], count: int, taken: int) -> CrashPoint:
    steps: dict[str, str] = {}
    calls: dict[int, str] = {}
    following = [*marks[:taken]]
    for frame in frames[:count]:
        body = jsontext.parse(frame.body, f"frame {frame.number}")
        for call in body.get("calls", ()):
            if call["op"] in ("agent", "capture"):
                calls[call["id"]] = call["step_id"]
                steps[call["step_id"]] = "new"
        for result in body.get("results", ()):
            if result["id"] in calls:
                steps[calls[result["id"]]] = "reused"
        while following and following[0].after_frame <= frame.number:
            _note(steps, following.pop(0))
        _note(steps, frame)
    for mark in following:
        _note(steps, mark)
    last = frames[count - 1]
    if last.kind is FrameKind.RESPONSE or last.kind is FrameKind.START:
        for name in _next_steps(frames, count):
            steps[name] = "new"
    found: dict[str, list[str]] = {"reused": [], "observed": [], "uncertain": [], "new": []}
    for name, group in steps.items():
        found[group].append(name)
    what = "nothing: the run has ended" if last.kind is FrameKind.END else _words(found)
    if last.kind is FrameKind.END:
        found = {**found, "observed": [], "uncertain": [], "new": []}
    return CrashPoint(last.number, taken, what, **{name: tuple(names) for name, names in found.items()})


def _note(steps: dict[str, str], holder: Frame | Mark) -> None:
    for name in holder.side.admitting:
        if steps.get(name) == "new":
            steps[name] = "uncertain"
    for name, note in holder.side.children.items():
        if steps.get(name) in ("new", "uncertain") and note.child_run_id is not None:
            steps[name] = "observed" if note.badge in ("stub", "recorded") else "uncertain"
            if note.result is not None or note.error is not None:
                steps[name] = "reused"


def _next_steps(frames: Sequence[Frame], count: int) -> list[str]:
    names: list[str] = []
    for frame in frames[count:]:
        if frame.kind is not FrameKind.REQUEST:
            break
        for call in jsontext.parse(frame.body, f"frame {frame.number}")["calls"]:
            if call["op"] in ("agent", "capture"):
                names.append(call["step_id"])
    return names


def _words(found: dict[str, list[str]]) -> str:
    parts = [
        f"{len(found[group])} {words}"
        for group, words in (
            ("reused", "reused"),
            ("observed", "observed to the end"),
            ("uncertain", "uncertain unless the host knows the child run"),
            ("new", "started"),
        )
        if found[group]
    ]
    return ", ".join(parts) or "the script starts again"
