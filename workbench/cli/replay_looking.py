"""What ``replay`` prints of a place in a run, of all its frames, and of an expression over them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click

from .common import err, out, print_json, run_async
from .exits import Exit, Relayed
from .output import Piece

if TYPE_CHECKING:
    from workbench.travelling import At
    from workflows_core.journal.bundle import Bundle
    from workflows_core.journal.debugger import Debugger
    from workflows_core.journal.moments import Moment


class Place(click.ParamType["At"]):
    """``6`` is frame 6, ``#40`` the 40th statement, ``:12`` the first time that line 12 runs."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> At:
        from workbench.travelling import At, read_place
        from workflows_core.errors import UsageError

        if isinstance(value, At):
            return value
        try:
            return read_place(str(value))
        except UsageError as error:
            self.fail(error.message, param, ctx)


class Expression(click.ParamType[str]):
    """A JavaScript expression. What is none is refused before anything is opened."""

    name = "expression"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from workflows_core.journal.expressions import can_be_read

        if not can_be_read(str(value)):
            self.fail(f"{str(value)!r} is no expression", param, ctx)
        return str(value)


def look(
    bundle: Bundle, edited: str | None, at: At | None, watches: tuple[str, ...], *, as_json: bool
) -> int:
    """Print what is in sight at a place."""
    from workbench.words import place

    moment, values, notes = run_async(lambda: _travel(bundle, edited, at, watches))
    if as_json:
        from workflows_core.journal.debugger import locals_document

        print_json(
            {
                "frame": moment.frame,
                "statement": moment.statement,
                "line": moment.line,
                "column": moment.column,
                "locals": locals_document(moment),
                "watches": values,
                "scopes": {one.name: one.scope for one in moment.locals},
                "in_flight": [
                    {"label": one.label, "line": one.line, "column": one.column} for one in moment.pending
                ],
            }
        )
        return Exit.DONE
    for note in notes:
        err().line(note)
    where = place(moment.line, moment.column)
    out().line((f"frame {moment.frame}", "title"), f"  {moment.kind}{f', {where}' if where else ''}")
    lines = (bundle.script if edited is None else edited).split("\n")
    if moment.line is not None and 1 <= moment.line <= len(lines):
        out().line((f"  {moment.line:>4} ", "quiet"), lines[moment.line - 1])
    rows: list[list[Piece]] = [[one.name, short(one.value), (one.scope, "quiet")] for one in moment.locals]
    out().table(rows, indent="  ")
    if moment.pending:
        out().line(("  in flight: ", "quiet"), ", ".join(one.label for one in moment.pending))
    out().table([[name, "=", short(value)] for name, value in values.items()], indent="  ")
    return Exit.DONE


async def _travel(
    bundle: Bundle, edited: str | None, at: At | None, watches: tuple[str, ...]
) -> tuple[Moment, dict[str, Any], list[str]]:
    from workbench.travelling import At, go_to_place

    async with _debugger(bundle, edited) as debugger:
        place = At("frame", len(bundle.frames) - 1) if at is None else at
        moment = await go_to_place(debugger, place, first=True)
        note = f"Limit here: {moment.limit}"
        if moment.limit is not None and note not in debugger.notes:
            debugger.notes.append(note)
        values = await debugger.watches(watches) if watches else {}
        return moment, values, debugger.notes


@asynccontextmanager
async def _debugger(bundle: Bundle, edited: str | None) -> AsyncIterator[Debugger]:
    """Time travel through a run that is a journal. Raises UsageError and Relayed where it cannot be gone through."""
    from workflows_core.errors import UsageError
    from workflows_core.journal.debugger import Debugger
    from workflows_core.journal.verify import verify_bundle

    if bundle.redacted:
        raise UsageError("this bundle is redacted: its values are gone, so there is nothing to look at")
    verdict = await verify_bundle(bundle, edited)
    if verdict.verdict == "incompatible":
        words = " ".join(verdict.notes)
        raise Relayed("This is no journal of ours", words, "incompatible", Exit.FAILED)
    debugger = await Debugger.open(
        bundle.script if edited is None else edited,
        bundle.frames,
        expand=bundle.expand,
        plain=verdict.divergence,
    )
    try:
        yield debugger
    finally:
        await debugger.close()


def show_history(bundle: Bundle, edited: str | None, expression: str, *, as_json: bool) -> int:
    """Print the value of an expression at every frame."""
    from workbench.replaying import described
    from workflows_core.journal.frames import FrameKind

    found, notes = run_async(lambda: _history(bundle, edited, expression))
    if as_json:
        values = [{"frame": number, "value": value} for number, value in found]
        print_json({"expression": expression, "history": values})
        return Exit.DONE
    for note in notes:
        err().line(note)
    rows: list[list[Piece]] = []
    frames = described(bundle.frames)
    before: Any = None
    for number, value in found:
        line = frames[number]
        name = ", ".join(line.labels) if line.kind in (FrameKind.REQUEST, FrameKind.RESPONSE) else ""
        text = short(value)
        same = number > 0 and value == before
        rows.append(
            [f"frame {number}", (f"{line.kind.value} {name}", "quiet"), (text, "quiet") if same else text]
        )
        before = value
    out().table(rows)
    return Exit.DONE


async def _history(
    bundle: Bundle, edited: str | None, expression: str
) -> tuple[list[tuple[int, Any]], list[str]]:
    async with _debugger(bundle, edited) as debugger:
        return await debugger.history(expression), debugger.notes


def show_frames(bundle: Bundle, *, as_json: bool) -> int:
    """Print every frame: its number, kind, steps, the places of its calls, and the time since the one before."""
    from workbench.replaying import described
    from workbench.words import duration, place

    frames = described(bundle.frames)
    if as_json:
        print_json(
            {
                "frames": [
                    {
                        "frame": line.number,
                        "kind": line.kind.value,
                        "labels": list(line.labels),
                        "places": [list(where) if where is not None else None for where in line.places],
                        "microseconds": line.took,
                        "failed": line.failed,
                        "body": line.body,
                    }
                    for line in frames
                ]
            }
        )
        return Exit.DONE
    rows: list[list[Piece]] = []
    for line in frames:
        took = "" if line.took is None else duration(line.took)
        places = "  ".join(place(*where) for where in line.places if where is not None)
        names = "  ".join(line.labels)
        rows.append(
            [
                str(line.number),
                line.kind.value,
                (names, "bad") if line.failed else names,
                (places, "quiet"),
                took,
            ]
        )
    out().table(rows)
    return Exit.DONE


def short(value: Any) -> str:
    """A value on one line."""
    from workbench.inert import shorten

    if value == {"$type": "missing"}:
        return "nothing"
    return shorten(json.dumps(value, ensure_ascii=False), 72)
