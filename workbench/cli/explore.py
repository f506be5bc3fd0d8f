"""Asking more of saved runs: ``explore`` and ``coverage``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import common, err, find_workspace, out, print_json, require_posix, run_async
from .exits import Exit, Relayed
from .replay import store_option
from .replay_looking import short

if TYPE_CHECKING:
    from workflows_core.journal.bundle import Bundle
    from workflows_core.journal.coverage import Coverage
    from workflows_core.journal.explore import Crashes, Orders

    from .output import Output, Piece


@click.command()
@click.argument("what", type=click.Choice(["orders", "crashes"]))
@click.argument("run")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Look at so many cases at most.",
)
@store_option
@common
def explore(
    what: str, run: str, limit: int, store: Path | None, workspace: Path | None, as_json: bool
) -> int:
    """Replay a run in other orders, or cut by crashes.

    WHAT is "orders": give the recorded answers in every order in which they could have come, and say whether the
    result or a later request changes. Or "crashes": say what recovery would do after a crash at each commit.
    Both say how many cases exist and how many were looked at. RUN is a run id, the beginning of one, a .wfrun file,
    or a store file with one run.
    """
    from workbench.opening import open_run

    require_posix()
    bundle = open_run(find_workspace(workspace), run, store)
    if what == "orders":
        orders = run_async(lambda: _orders(bundle, limit))
        print_json(orders_document(orders)) if as_json else _show_orders(out(), orders)
    else:
        crashes = run_async(lambda: _crashes(bundle, limit))
        print_json(crashes_document(crashes)) if as_json else _show_crashes(out(), crashes)
    return Exit.DONE


async def _orders(bundle: Bundle, limit: int) -> Orders:
    from workflows_core.journal.explore import explore_orders

    await _require_replay(bundle)
    return await explore_orders(bundle.script, bundle.frames, limit=limit, expand=bundle.expand)


async def _crashes(bundle: Bundle, limit: int) -> Crashes:
    from workflows_core.journal.explore import explore_crashes

    await _require_replay(bundle)
    return explore_crashes(bundle.frames, bundle.marks, limit=limit)


async def _require_replay(bundle: Bundle) -> None:
    """Refuse a run that does not replay: nothing that follows from it would be true."""
    from workflows_core.errors import UsageError
    from workflows_core.journal.verify import verify_bundle

    if bundle.redacted:
        raise UsageError("this bundle is redacted: its values are gone, so it cannot be run in another way")
    verdict = await verify_bundle(bundle)
    if not verdict.holds:
        words = f"the replay of {bundle.run_id} is {verdict.verdict}; see: workbench replay {bundle.run_id}"
        raise Relayed("The run does not replay", words, verdict.verdict, Exit.FAILED)


def orders_document(found: Orders) -> dict[str, Any]:
    return {
        "what": "orders",
        "exist": found.exist,
        "ran": found.ran,
        "parallel": [list(group) for group in found.concurrent],
        "unanswered": list(found.unanswered),
        "changed": [
            {
                "order": list(case.order),
                "what": case.what,
                "step_id": case.step_id,
                "differences": [
                    {"path": one.path, "recorded": one.recorded, "now": one.now} for one in case.differences
                ],
            }
            for case in found.changed
        ],
    }


def crashes_document(found: Crashes) -> dict[str, Any]:
    groups = ("reused", "observed", "uncertain", "new")
    return {
        "what": "crashes",
        "exist": found.exist,
        "ran": found.ran,
        "points": [
            {
                "after_frame": point.after,
                "marks": point.marks,
                **{name: list(getattr(point, name)) for name in groups},
                "recovery": point.what,
            }
            for point in found.points
        ],
    }


def _show_orders(output: Output, found: Orders) -> None:
    from workbench.words import count

    exist = "more orders than can be counted" if found.exist is None else count(found.exist, "order")
    verb = "exists" if found.exist == 1 else "exist"
    of = "recorded answers" if found.unanswered else "answers"
    output.line((f"{exist} of {of} {verb}; {found.ran} ran", "title"))
    for group in found.concurrent:
        output.line(f"  in flight together: {', '.join(group)}")
    if found.unanswered:
        names = ", ".join(found.unanswered)
        output.line(
            (f"  no recorded answer: {names}; orders in which those answer are not looked at", "waiting")
        )
    if not found.changed:
        if found.unanswered:
            output.line("  none of these changes the result or a request")
        else:
            output.line(("  none changes the result or a request", "good"))
        return
    changes = "changes" if len(found.changed) == 1 else "change"
    output.line((f"  {count(len(found.changed), 'order')} {changes} something", "waiting"))
    for case in found.changed[:10]:
        what = f"the request of {case.step_id}" if case.what == "request" else f"the {case.what}"
        output.line(f"  {', '.join(case.order)}: {what} changes")
        rows: list[list[Piece]] = [
            [one.path or "the whole", short(one.recorded), ("now", "quiet"), short(one.now)]
            for one in case.differences[:5]
        ]
        output.table(rows, indent="      ")


def _show_crashes(output: Output, found: Crashes) -> None:
    from workbench.words import count

    output.line((f"{count(found.exist, 'commit')}; {found.ran} looked at", "title"))
    rows: list[list[Piece]] = [
        [
            f"after frame {point.after}",
            ("" if not point.marks else f"and mark {point.marks}", "quiet"),
            point.what,
        ]
        for point in found.points
    ]
    output.table(rows, indent="  ")


@click.command()
@click.argument("run", nargs=-1, required=True)
@store_option
@common
def coverage(run: tuple[str, ...], store: Path | None, workspace: Path | None, as_json: bool) -> int:
    """Show which statements of a script saved runs have reached.

    Each RUN (a run id, the beginning of one, a .wfrun file, or a store file with one run) is replayed and its
    statements are counted; runs of the same script add up.
    """
    from workbench.opening import open_run
    from workflows_core.journal.coverage import coverage as count_statements
    from workflows_core.journal.coverage import coverage_document

    require_posix()
    space = find_workspace(workspace)
    bundles = [open_run(space, each, store) for each in run]
    found = run_async(lambda: count_statements(bundles))
    if as_json:
        print_json(coverage_document(found))
        return Exit.DONE
    for one in found:
        _show_coverage(out(), one)
    return Exit.DONE


def _show_coverage(output: Output, found: Coverage) -> None:
    from workbench.words import count, hash7

    whole = len(found.statements)
    output.line(
        (f"script {hash7(found.script_hash)}", "title"),
        f"  {found.covered} of {count(whole, 'statement')} in {count(len(found.runs), 'run')}",
    )
    for note in found.notes:
        err().line(note)
    never = "✗" if output.unicode else "x"
    by_line: dict[int, list[int]] = {}
    for statement in found.statements:
        by_line.setdefault(statement.line, []).append(statement.hits)
    for number, text in enumerate(found.script.split("\n"), 1):
        hits = by_line.get(number)
        if hits is None:
            mark: Piece = "      "
        elif 0 in hits:
            mark = (f"{never:>6}" if not any(hits) else f"{max(hits):>5}{never}", "bad")
        else:
            mark = (f"{max(hits):>6}", "quiet")
        output.line(mark, (f" {number:>4} ", "quiet"), text)
