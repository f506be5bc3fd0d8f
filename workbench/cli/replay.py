"""Opening runs away from where they ran: ``export`` and ``replay``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .common import common, drawable, err, find_workspace, out, print_json, require_posix, run_async
from .exits import Exit
from .output import Output, Piece
from .replay_looking import Expression, Place, look, short, show_frames, show_history

if TYPE_CHECKING:
    from workbench.travelling import At
    from workflows_core.journal.bundle import Bundle
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
    one, a .wfrun file, or a store file with one run.
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
    type=Place(),
    metavar="FRAME",
    help="Show the variables in sight where this frame was emitted (a request) or before it is delivered (a response). "
    "Also '#N', before the Nth statement of the run, ':LINE', the first time that the line runs, ':LINExN', the Nth "
    "time, and 'end', where the script ends or waits for what the journal does not hold.",
)
@click.option(
    "--watch",
    "watches",
    type=Expression(),
    multiple=True,
    metavar="EXPR",
    help="Evaluate this expression there, in a worker that is thrown away. May be given several times. Without --at: "
    "at the last frame.",
)
@click.option(
    "--history",
    type=Expression(),
    metavar="EXPR",
    help="Show the value of this expression at every frame. Names, members and operators: nothing that could change "
    "something.",
)
@click.option("--frames", is_flag=True, help="List the frames with what they hold.")
@store_option
@common
def replay(
    run: str,
    headless: bool,
    script: Path | None,
    at: At | None,
    watches: tuple[str, ...],
    history: str | None,
    frames: bool,
    store: Path | None,
    workspace: Path | None,
    as_json: bool,
) -> int:
    """Run a recorded script again, offline, and compare.

    It is given the recorded answers, and what it asks is compared with what was recorded. Asks no Agent and
    changes nothing. Ends with 0 when the replay is complete or ends early, with 1 when it diverged or the run
    cannot be read as a journal. On a terminal, without options but --script and --store, it opens the Replay
    screen. RUN is a run id, the beginning of one, a .wfrun file, or a store file with one run.
    """
    from workbench.opening import open_run
    from workbench.scripts import read_script
    from workflows_core.journal.verify import verdict_document

    require_posix()
    space = find_workspace(workspace)
    bundle = open_run(space, run, store)
    edited = None if script is None else read_script(script)
    looks = [
        name
        for name, given in (
            ("--frames", frames),
            ("--history", history is not None),
            ("--at or --watch", at or watches),
        )
        if given
    ]
    if len(looks) > 1:
        raise click.UsageError(f"{looks[0]} and {looks[1]} exclude each other")
    if drawable() and not (headless or as_json or looks):
        from workbench.replaying import Given

        from .demo import open_application

        return open_application(space, "replay", Given(bundle, edited))
    if frames:
        return show_frames(bundle, as_json=as_json)
    if history is not None:
        return show_history(bundle, edited, history, as_json=as_json)
    if at is not None or watches:
        return look(bundle, edited, at, watches, as_json=as_json)
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
    if found.line is not None and 1 <= found.line <= len(lines):
        output.line((f"  {found.line:>4} ", "quiet"), lines[found.line - 1])
    rows: list[list[Piece]] = []
    for one in found.differences:
        path = one.path or "the whole"
        rows.append([path, ("recorded", "quiet"), short(one.recorded), ("now", "quiet"), short(one.now)])
    output.table(rows, indent="  ")
    if found.locals:
        output.line(("  in sight there", "quiet"))
        output.table([[name, short(value)] for name, value in found.locals.items()], indent="    ")
