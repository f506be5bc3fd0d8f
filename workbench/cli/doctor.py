"""``doctor``: what installation, engine, terminal and workspace are, what is missing, and how to get it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .common import common, find_workspace, out, print_json, run_async
from .exits import Exit

if TYPE_CHECKING:
    from workbench.workspace import Workspace

_SQLITE_NEEDED: Final = (3, 40, 0)
_REQUIRED: Final = (
    "quickjs-ng",
    "textual",
    "tree-sitter",
    "tree-sitter-javascript",
    "aiosqlite",
    "msgspec",
    "PyYAML",
    "click",
)
#: What doctor writes for a moment: a few pages of a store.
_PROBE_BYTES: Final = 64 * 1024
_MARKS: Final = {
    "ok": ("✓", "+", "good"),
    "note": ("·", "-", "quiet"),
    "warning": ("!", "!", "waiting"),
    "failed": ("✗", "x", "bad"),
}


@dataclass(frozen=True)
class Finding:
    """One line of the report. ``status`` is ok, note, warning or failed; ``advice`` says what to do."""

    name: str
    status: str
    value: str
    advice: str | None = None


@click.command()
@common
def doctor(workspace: Path | None, as_json: bool) -> int:
    """Examine installation, engine, terminal and workspace.

    Says what is missing and how to get it. Ends with 1 when something that is needed is missing or fails.
    """
    findings = list(examine(workspace))
    failed = any(finding.status == "failed" for finding in findings)
    if as_json:
        print_json({"ok": not failed, "findings": [_document(finding) for finding in findings]})
    else:
        _print(findings)
    return Exit.FAILED if failed else Exit.DONE


def examine(workspace: Path | None) -> Iterator[Finding]:
    """Every finding; an examination that raises becomes a failed one."""
    for name, look in (
        ("system", _system),
        ("python", _python),
        ("packages", _packages),
        ("contract", _contract),
        ("sqlite", _sqlite),
        ("engine", _engine),
        ("terminal", _terminal),
        ("workspace", lambda: _workspace(workspace)),
    ):
        yield from _contained(name, look)


def _contained(name: str, look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    from workflows_core.errors import WorkflowError

    try:
        yield from look()
    except WorkflowError as error:
        yield Finding(name, "failed", error.title, error.message)
    except Exception as error:  # noqa: BLE001  a report about what is broken must not break itself
        yield Finding(name, "failed", type(error).__name__, str(error)[:500] or None)


def _system() -> Iterator[Finding]:
    import platform

    value = f"{platform.system()} {platform.release()} on {platform.machine()}"
    if os.name == "posix":
        yield Finding("system", "ok", value)
    else:
        yield Finding("system", "failed", value, "Workflows run on Linux and macOS only; on Windows use WSL.")


def _python() -> Iterator[Finding]:
    import platform

    yield Finding("python", "ok", f"{platform.python_version()} ({sys.executable})")


def _packages() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, version

    for distribution in ("workflow-workbench", *_REQUIRED):
        name = "workbench" if distribution == "workflow-workbench" else distribution
        try:
            yield Finding(name, "ok", version(distribution))
        except PackageNotFoundError:
            advice = f"Install it: python -m pip install {distribution}"
            yield Finding(name, "failed", "not installed", advice)


def _contract() -> Iterator[Finding]:
    from extension_api.version import API_VERSION

    yield Finding("contract", "ok", f"extension API {API_VERSION}")


def _sqlite() -> Iterator[Finding]:
    import sqlite3

    if sqlite3.sqlite_version_info >= _SQLITE_NEEDED:
        yield Finding("sqlite", "ok", sqlite3.sqlite_version)
    else:
        yield Finding(
            "sqlite",
            "failed",
            sqlite3.sqlite_version,
            "SQLite 3.40 or later is needed; it comes with Python: use a newer Python, or one that is linked "
            "against a newer SQLite.",
        )


def _engine() -> Iterator[Finding]:
    """Start a worker and let it compute: what every run does first."""
    import time

    from workflows_core.limits import Limits
    from workflows_core.worker.process import Worker

    async def compute() -> tuple[Any, float]:
        begin = time.perf_counter()
        worker = await Worker.start(script="return 1 + 1;", args=b"{}", limits=Limits())
        try:
            turn = await worker.first_turn()
        finally:
            await worker.close()
        return (turn.end.value if turn.end is not None else None), time.perf_counter() - begin

    value, seconds = run_async(compute)
    if value == 2:
        yield Finding("engine", "ok", f"a worker started and computed 1 + 1 in {seconds * 1000:.0f} ms")
    else:
        yield Finding(
            "engine", "failed", f"1 + 1 gave {value!r}", "Install again: quickjs-ng does not work here."
        )


def _terminal() -> Iterator[Finding]:
    import shutil

    from .output import Output

    output = Output(sys.stdout)
    if not output.terminal:
        yield Finding("terminal", "note", "standard output is not a terminal", "The application needs one.")
        return
    size = shutil.get_terminal_size()
    term = os.environ.get("TERM", "")
    value = f"{term or 'TERM is not set'}, {size.columns}×{size.lines}"
    if not term or term == "dumb":
        yield Finding(
            "terminal", "warning", value, "Set TERM to what your terminal is, such as xterm-256color."
        )
    elif size.columns < 80 or size.lines < 24:
        yield Finding(
            "terminal", "warning", value, "Enlarge it: the application is laid out for 80×24 and up."
        )
    else:
        yield Finding("terminal", "ok", value)
    yield _colour(term)
    if output.unicode:
        yield Finding("unicode", "ok", output.stream.encoding)
    else:
        advice = "ASCII forms are used. For the glyphs set a UTF-8 locale, such as LANG=C.UTF-8."
        yield Finding("unicode", "warning", output.stream.encoding, advice)


def _colour(term: str) -> Finding:
    if os.environ.get("NO_COLOR"):
        return Finding("colour", "note", "off, because NO_COLOR is set")
    if os.environ.get("COLORTERM") in ("truecolor", "24bit"):
        return Finding("colour", "ok", "16 million colours")
    return Finding("colour", "ok", "256 colours" if "256color" in term else "16 colours")


def _workspace(explicit: Path | None) -> Iterator[Finding]:
    space = find_workspace(explicit)
    config = space.config_path
    yield Finding("workspace", "ok", str(space.root))
    if config is None:
        yield Finding("configuration", "note", "no workbench.yaml; the defaults apply")
    else:
        from .common import engine_settings

        settings = engine_settings(space)
        yield Finding("configuration", "ok", f"{config.name}; Agents: {', '.join(settings.agents)}")
        if settings.reviewers > 1 and space.config.auth.mode != "password":
            yield Finding(
                "reviewers",
                "warning",
                f"two are needed, and auth.mode {space.config.auth.mode} knows one person at most",
                "Nothing can be reconciled here. Set auth.mode to password and make two accounts, or reviewers: 1.",
            )
    yield from _contained("agents", lambda: _agents(space))
    yield from _contained("store", lambda: _store(space))
    yield from _contained("host store", lambda: _host_store(space))
    yield from _contained("files", lambda: _files(space))


def _agents(space: Workspace) -> Iterator[Finding]:
    """Each Agent that can be called for real: where it is, and whether its secret is there. Nobody is asked."""
    from workbench.agents.survey import real_agents

    for name, value, problem in real_agents(space.config.agents.values(), space.root):
        status = "ok" if problem is None else "warning"
        yield Finding(f"agent {name}", status, value, problem)


def _store(space: Workspace) -> Iterator[Finding]:
    if not space.storage_path.exists():
        yield Finding("store", "note", "none yet; the first launch makes it")
        return
    from workbench.words import count

    from .common import reading

    with reading(space) as reader:
        kept = 0 if reader is None else len(reader.runs(None))
    yield Finding("store", "ok", f"{space.storage_path}, {count(kept, 'run')}, {_held(space.storage_path)}")


def _held(path: Path) -> str:
    """The bytes that a store holds, its log included."""
    from workbench.words import kib

    return kib(sum(each.stat().st_size for each in (path, Path(f"{path}-wal")) if each.exists()))


def _host_store(space: Workspace) -> Iterator[Finding]:
    import sqlite3
    from contextlib import closing

    from workbench.host.schema import NEWEST
    from workflows_core.errors import StoreTooNew
    from workflows_core.store.opening import BUSY_MILLISECONDS, failed
    from workflows_core.store.queries import read_only

    path = space.host_store_path
    if not path.exists():
        yield Finding("host store", "note", "none yet; the first launch makes it")
        return
    try:
        with closing(
            sqlite3.connect(read_only(path), uri=True, timeout=BUSY_MILLISECONDS / 1000)
        ) as connection:
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
            number = 0
            if "migrations" in tables:
                number = connection.execute("SELECT max(number) FROM migrations").fetchone()[0] or 0
            if "child_runs" in tables:
                connection.execute("SELECT count(*) FROM child_runs").fetchone()
    except sqlite3.Error as error:
        raise failed(error, path, "reading the host's store") from None
    if number > NEWEST:
        raise StoreTooNew(
            f"{path} has schema {number}, and this version knows {NEWEST}. Use the newer workbench that wrote it"
        )
    yield Finding("host store", "ok", f"{path}, {_held(path)}")


def _files(space: Workspace) -> Iterator[Finding]:
    """Write a small private file where the stores are, or will be, and take it away again."""
    for folder in dict.fromkeys(_existing(path) for path in (space.state_dir, space.storage_path.parent)):
        try:
            mode = _try_file(folder)
        except OSError as error:
            advice = f"Free some space, or make the folder writable: nothing can be stored in {folder}."
            yield Finding("files", "failed", f"{folder}: {error.strerror or type(error).__name__}", advice)
            continue
        if mode & 0o077:
            advice = (
                f"Use a workspace on a file system that keeps modes: this one makes files of mode {mode:04o}."
            )
            yield Finding("files", "failed", f"{folder}: files there cannot be kept private", advice)
        else:
            yield Finding("files", "ok", f"{folder} takes private files")


def _existing(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that is there."""
    return next((path for path in (folder, *folder.parents) if path.is_dir()), folder)


def _try_file(folder: Path) -> int:
    """Write, synchronise and remove a file of _PROBE_BYTES; its mode. Raises OSError."""
    import secrets
    import stat

    path = folder / f".workbench-doctor-{secrets.token_hex(4)}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
            return stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    finally:
        path.unlink(missing_ok=True)


def _document(finding: Finding) -> dict[str, str | None]:
    return {
        "name": finding.name,
        "status": finding.status,
        "value": finding.value,
        "advice": finding.advice,
    }


def _print(findings: list[Finding]) -> None:
    from workbench.inert import pad
    from workbench.words import count

    output = out()
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        glyph, plain, tone = _MARKS[finding.status]
        mark = glyph if output.unicode else plain
        output.line((mark, tone), " ", pad(finding.name, width), "  ", finding.value)
        if finding.advice is not None:
            output.line(" " * (width + 4), (finding.advice, "quiet"))
    failed = sum(finding.status == "failed" for finding in findings)
    output.line()
    if failed:
        output.line((f"{count(failed, 'problem')} to solve before workflows can run", "bad"))
    else:
        output.line(("Ready.", "good"))
