"""Bytes and versions that are kept: ``artifact``, ``save``, ``library``."""

from __future__ import annotations

import base64
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import common, connected, err, find_workspace, out, print_json, reading, require_posix, run_async
from .exits import Exit
from .runs import read_store

if TYPE_CHECKING:
    from workbench.workspace import Workspace
    from workflows_core.model import Artifact, Definition


@click.command()
@click.argument("run")
@click.argument("step")
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the bytes into this new file.",
)
@click.option(
    "--compare", is_flag=True, help="Show how they differ from what was approved last at this step."
)
@common
def artifact(
    run: str, step: str, output: Path | None, compare: bool, workspace: Path | None, as_json: bool
) -> int:
    """Get the exact bytes of a step.

    Of a capture that is its file, of a checkpoint what it asks about, of anything else the canonical JSON of its
    output. A terminal gets them with symbols for what would act on it; a file or a pipe gets exactly these bytes.
    Their hash goes to standard error. RUN is a run id or the beginning of one.
    """
    space = find_workspace(workspace)

    def ask(reader: Any) -> tuple[str, Artifact]:
        run_id = reader.resolve(run)
        return run_id, reader.artifact(run_id, step)

    run_id, found = read_store(space, ask)
    if compare:
        if output is not None:
            from workflows_core.errors import UsageError

            raise UsageError("-o and --compare do not go together")
        return _compare_approved(space, run_id, found, as_json=as_json)
    if output is not None:
        _write_new(output, found.body)
    if as_json:
        print_json(_document(run_id, found, output))
        return Exit.DONE
    from workbench.words import kib

    where = f"{output}: " if output is not None else ""
    err().line(f"{where}sha256 {found.version}  {kib(len(found.body))}  {found.media_type}")
    if output is not None:
        return Exit.DONE
    if sys.stdout.isatty():
        _show(found)
    else:
        sys.stdout.buffer.write(found.body)
        sys.stdout.buffer.flush()
    return Exit.DONE


def _show(found: Artifact) -> None:
    from workbench.checkpoints import rows

    output = out()
    for row in rows(found, output.width or 80):
        output.line(row.text)


def _compare_approved(space: Workspace, run_id: str, found: Artifact, *, as_json: bool) -> int:
    """Say how the bytes differ from those that were approved last at this step, in an earlier run."""
    from workbench.checkpoints import rows
    from workbench.review import Approved, last_approved

    async def look() -> Approved | None:
        async with connected(space, "never") as client:
            return await last_approved(client, await client.runs(None), run_id, found.step_id)

    before = run_async(look)
    same = before is not None and before.artifact.version == found.version
    lines: list[str] = []
    if before is not None and not same:
        old, new = ([row.text for row in rows(each, 100)] for each in (before.artifact, found))
        lines = _diff(old, new, f"{before.receipt.run_id} {found.step_id}", f"{run_id} {found.step_id}")
    if as_json:
        receipt = None if before is None else before.receipt
        approved = None if receipt is None else {"run_id": receipt.run_id, "sha256": receipt.sha256}
        print_json(
            {"run_id": run_id, "step_id": found.step_id, "approved": approved, "same": same, "diff": lines}
        )
        return Exit.DONE
    if before is None:
        err().line(f"Nothing was approved at {found.step_id} in an earlier run.")
    elif same:
        err().line(f"The same bytes were approved in {before.receipt.run_id}.")
    _show_diff(lines)
    return Exit.DONE


def _diff(before: list[str], after: list[str], first: str, second: str) -> list[str]:
    """A unified diff of lines."""
    import difflib

    return list(difflib.unified_diff(before, after, first, second, lineterm=""))


def _show_diff(lines: list[str]) -> None:
    tones = {"+": "good", "-": "bad", "@": "quiet"}
    for line in lines:
        tone = tones.get(line[:1])
        out().line((line, tone) if tone else line)


def _document(run_id: str, found: Artifact, output: Path | None) -> dict[str, Any]:
    """The facts, and the bytes as base64 where they went into no file."""
    document = {
        "run_id": run_id,
        "step_id": found.step_id,
        "artifact_version": found.version,
        "sha256": found.version,
        "media_type": found.media_type,
        "size": len(found.body),
        "path": found.path,
        "file": None if output is None else str(output),
    }
    if output is None:
        document["base64"] = base64.b64encode(found.body).decode("ascii")
    return document


def _write_new(path: Path, body: bytes) -> None:
    """Write a file that was not there, readable by its owner alone, whole or not at all. Raises UsageError."""
    from workflows_core.errors import UsageError

    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise UsageError(f"{path} exists already and was left as it is; name another file") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{str(path)!r} is not a path") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(body)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


@click.command()
@click.argument("script", type=click.Path(path_type=Path))
@click.option("--name", metavar="N", required=True, help="The name of the version in the library.")
@common
def save(script: Path, name: str, workspace: Path | None, as_json: bool) -> int:
    """Save a script as a version that never changes.

    Its version is the hash of its text; saving the same again gives the version that exists. Errors of the check
    stop it. Launch it with: workbench run --version NAME@HASH.
    """
    from workbench.document import problems_document
    from workbench.scripts import read_script

    from .author import find_problems, has_errors, print_problems, summary

    require_posix()
    text = read_script(script)
    space = find_workspace(workspace)
    problems = find_problems(space, text)
    print_problems(err(), problems, str(script))
    if has_errors(problems):
        err().line(("Not saved: ", "bad"), summary(problems, str(script)))
        if as_json:
            print_json(problems_document(problems))
        return Exit.FAILED

    async def work() -> Definition:
        async with connected(space, "if_free") as client:
            return await client.save(name, text)

    saved = run_async(work)
    if as_json:
        print_json(_entry(saved))
    else:
        out().line(f"{saved.name}@{saved.version}")
        err().line(
            ("Launch it with: ", "quiet"),
            f"workbench run --version {shlex.quote(f'{saved.name}@{saved.version[:7]}')}",
        )
    return Exit.DONE


@click.command()
@click.argument("version", required=False)
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write its script into this new file.",
)
@click.option(
    "--compare-with",
    "other",
    metavar="SCRIPT|NAME@HASH",
    help="Show how it differs from this script or version.",
)
@common
def library(
    version: str | None, output: Path | None, other: str | None, workspace: Path | None, as_json: bool
) -> int:
    """List the saved versions; show or compare one.

    They are listed by name and newest first. VERSION is NAME@HASH, with at least the first 7 characters of the
    hash; its script is printed.
    """
    from workflows_core.errors import UsageError

    space = find_workspace(workspace)
    if version is None:
        if output is not None or other is not None:
            raise UsageError("name the version: NAME@HASH")
        return _list(space, as_json=as_json)
    if output is not None and other is not None:
        raise UsageError("-o and --compare-with do not go together")
    if other is not None:
        return _compare(space, version, other, as_json=as_json)
    item, script = _saved(space, version)
    if output is not None:
        _write_new(output, script.encode())
    if as_json:
        given = {"file": str(output)} if output is not None else {"script": script}
        print_json({**_entry(item), **given})
    elif output is None:
        out().text(script.removesuffix("\n"))
    else:
        err().line(f"{output}: {item.name}@{item.version}")
    return Exit.DONE


def _list(space: Workspace, *, as_json: bool) -> int:
    from workbench import words
    from workbench.login import acting_as
    from workflows_core.model import now

    with reading(space) as reader:
        saved = [] if reader is None else reader.definitions(acting_as(space))
    if as_json:
        print_json({"definitions": [_entry(item) for item in saved]})
    elif saved:
        at = now()
        out().table(
            [[f"{item.name}@{item.version[:7]}", (words.ago(item.saved_at, at), "quiet")] for item in saved]
        )
    else:
        err().line(
            f"Nothing is saved in {space.root} yet. Save a script with: workbench save SCRIPT --name N"
        )
    return Exit.DONE


def _saved(space: Workspace, named: str) -> tuple[Definition, str]:
    """A saved version with its script. Raises UsageError, NotFound."""
    from workflows_core.errors import UsageError

    name, at, version = named.rpartition("@")
    if not at or not name:
        raise UsageError(f"{named} is no version; versions are called NAME@HASH, see: workbench library")

    from workbench.login import acting_as

    def ask(reader: Any) -> tuple[Definition, str]:
        found: tuple[Definition, str] = reader.definition(name, version, acting_as(space))
        return found

    return read_store(space, ask)


def _compare(space: Workspace, first: str, second: str, *, as_json: bool) -> int:
    """Say how two scripts differ, as a unified diff."""
    from workbench.scripts import read_script

    before = _saved(space, first)[1]
    after = (
        _saved(space, second)[1] if "@" in second and not Path(second).exists() else read_script(Path(second))
    )
    lines = _diff(before.split("\n"), after.split("\n"), first, second)
    if as_json:
        print_json({"first": first, "second": second, "same": before == after, "diff": lines})
        return Exit.DONE
    _show_diff(lines)
    if not lines:
        err().line(f"{first} and {second} are the same.")
    return Exit.DONE


def _entry(item: Definition) -> dict[str, Any]:
    from workflows_core.model import iso

    return {"name": item.name, "version": item.version, "saved_at": iso(item.saved_at)}
