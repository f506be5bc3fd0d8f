"""Opening runs away from where they ran: ``export`` and ``replay``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import common, drawable, err, find_workspace, out, print_json, require_posix, run_async
from .exits import Exit, Relayed
from .output import Output, Piece

if TYPE_CHECKING:
    from workflows_core.journal.bundle import Bundle
    from workflows_core.journal.moments import Moment
    from workflows_core.journal.verify import Verdict

store_option = click.option(
    "--store",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Look RUN up in this store file instead of the workspace: for a file from another machine. It is "
    "copied with its -wal file first and never changed.",
)


@click.command()
@click.argument("run")
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE.wfrun",
    help="The bundle to write.",
)
@click.option(
    "--redact",
    is_flag=True,
    help="Replace arguments, tasks, outputs, results, log messages and captured files by salted hashes of the "
    "same shape. The script stays. Such a bundle cannot be executed; it carries the verdict of a replay made now.",
)
@store_option
@common
def export(
    run: str, output: Path, redact: bool, store: Path | None, workspace: Path | None, as_json: bool
) -> int:
    """Write one run with all its records into one file.

    Works in any state of the run, also while it is live and after a crash. RUN is a run id, the beginning of
    one, or another bundle.
    """
    from workbench.opening import open_run
    from workbench.words import kib
    from workflows_core.journal.bundle import save

    bundle = open_run(find_workspace(workspace), run, store)
    if redact and not bundle.redacted:
        bundle = _redacted(bundle)
    size = save(bundle, output)
    if as_json:
        print_json(
            {
                "run_id": bundle.run_id,
                "file": str(output),
                "bytes": size,
                "frames": len(bundle.frames),
                "redacted": bundle.redacted,
                "notes": list(bundle.notes),
            }
        )
        return Exit.DONE
    for note in bundle.notes:
        err().line(note)
    out().line(f"{output}: {bundle.run_id}, {len(bundle.frames)} frames, {kib(size)}")
    return Exit.DONE


def _redacted(bundle: Bundle) -> Bundle:
    from workflows_core.journal.redact import redact
    from workflows_core.journal.verify import verdict_document, verify_bundle

    require_posix()
    verdict = run_async(lambda: verify_bundle(bundle))
    return redact(bundle, verdict_document(verdict))


@click.command()
@click.argument("run")
@click.option("--headless", is_flag=True, help="Print the verdict, also on a terminal.")
@click.option(
    "--script",
    type=click.Path(path_type=Path),
    metavar="EDITED.js",
    help="Replay this script against the recorded answers, up to the first difference.",
)
@click.option(
    "--at",
    type=int,
    metavar="FRAME",
    help="Show the variables in sight where this frame was emitted (a request) or before it is delivered (a response).",
)
@click.option(
    "--watch",
    "watches",
    multiple=True,
    metavar="EXPR",
    help="Evaluate this expression there, in a worker that is thrown away. May be given several times. Without --at: "
    "at the last frame.",
)
@store_option
@common
def replay(
    run: str,
    headless: bool,
    script: Path | None,
    at: int | None,
    watches: tuple[str, ...],
    store: Path | None,
    workspace: Path | None,
    as_json: bool,
) -> int:
    """Run a recorded script again, offline, and compare.

    It is given the recorded answers, and what it asks is compared with what was recorded. Asks no Agent and
    changes nothing. Ends with 0 when the replay is complete or ends early, with 1 when it diverged or the run
    cannot be read as a journal. On a terminal, without options, it opens the Replay screen. RUN is a run id, the
    beginning of one, a .wfrun file, or a store file with one run.
    """
    from workbench.opening import open_run
    from workbench.scripts import read_script
    from workflows_core.journal.verify import verdict_document

    require_posix()
    space = find_workspace(workspace)
    bundle = open_run(space, run, store)
    if drawable() and not (headless or as_json or watches) and script is None and at is None:
        from .demo import open_application

        return open_application(space, "replay", bundle)
    edited = None if script is None else read_script(script)
    if at is not None or watches:
        return _look(bundle, edited, at, watches, as_json=as_json)
    verdict = run_async(lambda: examine(bundle, edited))
    if as_json:
        print_json(verdict_document(verdict))
    else:
        show_verdict(out(), bundle.script if edited is None else edited, verdict)
    return Exit.DONE if verdict.holds else Exit.FAILED


async def examine(bundle: Bundle, edited: str | None) -> Verdict:
    """The verdict on a run; a divergence with the variables that fed the request."""
    import msgspec

    from workflows_core.journal.debugger import explain
    from workflows_core.journal.verify import verify_bundle

    verdict = await verify_bundle(bundle, edited)
    if verdict.divergence is None or bundle.redacted:
        return verdict
    script = bundle.script if edited is None else edited
    found = await explain(script, bundle.frames, verdict.divergence, expand=bundle.expand)
    return msgspec.structs.replace(verdict, divergence=found)


def _look(
    bundle: Bundle, edited: str | None, at: int | None, watches: tuple[str, ...], *, as_json: bool
) -> int:
    """Print what is in sight at a frame."""
    from workbench.words import place

    moment, values, notes = run_async(lambda: _travel(bundle, edited, at, watches))
    if as_json:
        from workflows_core.journal.debugger import locals_document

        print_json(
            {
                "frame": moment.frame,
                "line": moment.line,
                "column": moment.column,
                "locals": locals_document(moment),
                "watches": values,
            }
        )
        return Exit.DONE
    for note in notes:
        err().line(note)
    where = place(moment.line, moment.column)
    out().line((f"frame {moment.frame}", "title"), f"  {moment.kind}{f', {where}' if where else ''}")
    lines = (bundle.script if edited is None else edited).split("\n")
    if moment.line is not None and moment.line <= len(lines):
        out().line((f"  {moment.line:>4} ", "quiet"), lines[moment.line - 1])
    rows: list[list[Piece]] = [[one.name, short(one.value), (one.scope, "quiet")] for one in moment.locals]
    out().table(rows, indent="  ")
    if moment.pending:
        out().line(("  in flight: ", "quiet"), ", ".join(one.label for one in moment.pending))
    out().table([[name, "=", short(value)] for name, value in values.items()], indent="  ")
    return Exit.DONE


async def _travel(
    bundle: Bundle, edited: str | None, at: int | None, watches: tuple[str, ...]
) -> tuple[Moment, dict[str, Any], list[str]]:
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
        moment = await debugger.go_to_frame(len(bundle.frames) - 1 if at is None else at)
        if moment.limit is not None:
            debugger.notes.append(f"Limit here: {moment.limit}")
        values = await debugger.watch(watches) if watches else {}
        return moment, values, debugger.notes
    finally:
        await debugger.close()


_TONES = {"complete": ("✓", "+", "good"), "ends_early": ("‖", "=", "waiting")}


def show_verdict(output: Output, script: str, verdict: Verdict) -> None:
    """A verdict for people: the word, the notes, and where and how the two runs differ."""
    from workbench.words import count, place

    glyph, ascii_form, tone = _TONES.get(verdict.verdict, ("✗", "x", "bad"))
    mark = glyph if output.unicode else ascii_form
    output.line((f"{mark} {verdict.verdict.replace('_', ' ')}", tone), f"  {count(verdict.frames, 'frame')}")
    for note in verdict.notes:
        output.line(f"  {note}")
    found = verdict.divergence
    if found is None:
        return
    where = place(found.line, found.column)
    output.line(
        f"  differs at frame {found.frame}{f', {where}' if where else ''}; frame {found.agreed} agreed"
    )
    lines = script.split("\n")
    if found.line is not None and found.line <= len(lines):
        output.line((f"  {found.line:>4} ", "quiet"), lines[found.line - 1])
    rows: list[list[Piece]] = []
    for one in found.differences:
        path = one.path or "the whole"
        rows.append([path, ("recorded", "quiet"), short(one.recorded), ("now", "quiet"), short(one.now)])
    output.table(rows, indent="  ")
    if found.locals:
        output.line(("  in sight there", "quiet"))
        output.table([[name, short(value)] for name, value in found.locals.items()], indent="    ")


def short(value: Any) -> str:
    from workbench.inert import shorten

    if value == {"$type": "missing"}:
        return "nothing"
    return shorten(json.dumps(value, ensure_ascii=False), 72)
