"""Making something from a recorded run: ``export-test`` and ``stubs``."""

from __future__ import annotations

from pathlib import Path

import click

from .common import common, err, find_workspace, out, print_json, require_posix, run_async
from .exits import Exit
from .replay import store_option


@click.command("export-test")
@click.argument("run")
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="test_x.py",
    help="The file to write.",
)
@store_option
@common
def export_test(run: str, output: Path, store: Path | None, workspace: Path | None, as_json: bool) -> int:
    """Write a pytest file that fails when the script changes.

    It holds the script, the recorded requests and answers, and a stub set, and needs neither network nor workspace.
    RUN is a run id, the beginning of one, a .wfrun file, or a store file with one run.
    """
    from workbench.opening import open_run
    from workbench.recordings import test_text
    from workflows_core.journal.verify import verify_bundle

    require_posix()
    bundle = open_run(find_workspace(workspace), run, store)
    verdict = run_async(lambda: verify_bundle(bundle))
    for note in verdict.notes:
        err().line(note)
    write_new(output, test_text(bundle, verdict.verdict))
    if as_json:
        print_json({"run_id": bundle.run_id, "file": str(output), "verdict": verdict.verdict})
    else:
        out().line(f"{output}: two tests of {bundle.record.name}, from {bundle.run_id}")
    return Exit.DONE


@click.command()
@click.argument("run")
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE.stubs.yaml",
    help="The file to write.",
)
@click.option(
    "--pinned",
    is_flag=True,
    help="Give every entry the hash of its request, so that it answers that request alone. Answers of real Agents "
    "always have it.",
)
@store_option
@common
def stubs(
    run: str, output: Path, pinned: bool, store: Path | None, workspace: Path | None, as_json: bool
) -> int:
    """Write a stub set from the answers of a run.

    One entry for each answered Agent call, with its captured files. RUN is a run id, the beginning of one, a .wfrun file, or
    a store file with one run.
    """
    from workbench.opening import open_run
    from workbench.recordings import stub_entries, stub_text
    from workbench.words import count

    bundle = open_run(find_workspace(workspace), run, store)
    entries, notes = stub_entries(bundle, pinned=True if pinned else None)
    write_new(output, stub_text(entries, bundle))
    for note in notes:
        err().line(note)
    if as_json:
        print_json({"run_id": bundle.run_id, "file": str(output), "entries": len(entries), "notes": notes})
    else:
        out().line(f"{output}: {count(len(entries), 'entry', 'entries')} from {bundle.run_id}")
    return Exit.DONE


def write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet. Raises UsageError where it is."""
    from workflows_core.errors import UsageError

    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} is there already; choose another name or move it away") from None
