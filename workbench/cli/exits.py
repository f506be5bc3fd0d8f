"""Exit codes and the one way in which commands report errors.

An error is one titled sentence on standard error; its class decides the exit code (workflows_core/errors.py).
A defect of the workbench itself never shows a traceback, unless WORKBENCH_DEBUG=1 is set: it says where the
frames were written down. That file holds code positions and the exception's type, but not its message, which
could quote what a script, an Agent or a configuration supplied.
"""

from __future__ import annotations

import os
import sys
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workflows_core.errors import WorkflowError
    from workflows_core.model import RunState


class Exit(IntEnum):
    """Every exit code that a command can end with."""

    DONE = 0
    #: The followed run failed or was cancelled, or a check found errors.
    FAILED = 1
    #: An unknown command or id, or an input that cannot be used.
    USAGE = 2
    #: The followed run waits for a person.
    WAITS = 3
    NEEDS_RECONCILIATION = 4
    #: The followed run is recoverable or interrupted.
    RECOVERABLE = 5
    #: The workspace cannot be opened, its configuration is wrong, or its owner does not answer.
    WORKSPACE = 6
    #: Not permitted, incompatible, or it contradicts a record.
    REFUSED = 7
    #: A defect of the workbench.
    DEFECT = 70
    STOPPED = 130


class Relayed(Exception):
    """An error that another process of the workbench has reported: what it said, and its exit code."""

    def __init__(self, title: str, message: str, code: str, status: int) -> None:
        super().__init__(message)
        self.title = title
        self.message = message
        self.code = code
        self.status = status


def of_state(state: RunState) -> Exit:
    """The exit code of a command that followed a run until it was in ``state``."""
    from workflows_core.model import RunState as S

    return {
        S.COMPLETED: Exit.DONE,
        S.FAILED: Exit.FAILED,
        S.CANCELLED: Exit.FAILED,
        S.PAUSED: Exit.WAITS,
        S.WAITING_APPROVAL: Exit.WAITS,
        S.WAITING_INPUT: Exit.WAITS,
        S.NEEDS_RECONCILIATION: Exit.NEEDS_RECONCILIATION,
        S.RECOVERABLE: Exit.RECOVERABLE,
        S.INTERRUPTED: Exit.RECOVERABLE,
    }.get(state, Exit.DONE)


def of_error(error: WorkflowError) -> Exit:
    from workflows_core.errors import ConfigurationError, Refused, StoreError, UsageError

    if isinstance(error, UsageError):
        return Exit.USAGE
    if isinstance(error, Refused):
        return Exit.REFUSED
    if isinstance(error, (ConfigurationError, StoreError)):
        return Exit.WORKSPACE
    return Exit.DEFECT


def report(title: str, message: str, code: str, *, json: bool) -> None:
    """Write one error: the sentence on standard error and, with ``json``, a document on standard output."""
    from .output import Output

    Output(sys.stderr).line((title, "bad"), f": {message}")
    if json:
        from workbench.document import dumps, error_document

        try:
            sys.stdout.write(dumps(error_document(code, title, message)))
            sys.stdout.flush()
        except OSError:
            pass  # Where standard output takes nothing, the sentence on standard error has to do.


def report_defect(error: BaseException, *, json: bool) -> None:
    """Report an exception that nothing expected; the sentence says where its frames were written."""
    if os.environ.get("WORKBENCH_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    kind = type(error).__name__
    where = _write_down(error)
    kept = f"The details are in {where}." if where else "The details could not be written to a file."
    report(
        "This is a defect of the workbench",
        f"it met an unexpected {kind}. {kept} Set WORKBENCH_DEBUG=1 to see them here.",
        "defect",
        json=json,
    )


def _write_down(error: BaseException) -> Path | None:
    from datetime import UTC, datetime

    import platformdirs

    from workbench.logs import append, frames

    try:
        folder = Path(platformdirs.user_log_path("workbench", appauthor=False, ensure_exists=True))
        path = folder / "defects.log"
        append(path, f"{datetime.now(UTC).isoformat()} {frames(error)}")
    except OSError:
        return None
    return path
