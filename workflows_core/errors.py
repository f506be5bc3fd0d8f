"""The exception tree of the engine. Each error has a code, a title and a sentence that says what to do.

::

    WorkflowError
    ├── UsageError               what was given cannot be used (exit 2)
    │   ├── NotFound             no such run, step or definition
    │   ├── ScriptRefused        the script is not one function body, or too large; carries a position
    │   └── LimitExceeded        something is over a limit of the table
    ├── Refused                  the request is understood and not allowed (exit 7)
    │   ├── Conflict             it contradicts a record (request id, decision, revision)
    │   ├── NotPermitted         the caller's session may not do this
    │   ├── Incompatible         the run cannot be recovered here and now; says why
    │   ├── Deleted              the run was deleted; names the tombstone
    │   └── QuotaReached         active or retained runs are at their limit
    ├── ConfigurationError       the configuration is wrong (exit 6)
    └── StoreError               the workspace cannot be opened or written (exit 6)
        ├── StoreInUse           another process owns it; carries its pid
        ├── StoreTooNew          written by a newer version
        └── StoreFailed          the disk refused a write or a read
"""

from __future__ import annotations


class WorkflowError(Exception):
    """Base of all errors that the engine shows to people. ``str()`` is the sentence."""

    code = "workflow_error"
    title = "Something went wrong"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


class UsageError(WorkflowError):
    code = "usage"
    title = "That cannot be used"


class NotFound(UsageError):
    code = "not_found"
    title = "Not found"


class ScriptRefused(UsageError):
    """The script cannot run. ``line`` and ``column`` start at 1; None where there is no single place."""

    code = "script_refused"
    title = "The script cannot run"

    def __init__(
        self, message: str, *, code: str | None = None, line: int | None = None, column: int | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.line = line
        self.column = column


class LimitExceeded(UsageError):
    code = "limit_exceeded"
    title = "Over a limit"


class Refused(WorkflowError):
    code = "refused"
    title = "Refused"


class Conflict(Refused):
    code = "conflict"
    title = "It contradicts a record"


class NotPermitted(Refused):
    code = "not_permitted"
    title = "Not permitted"


class Incompatible(Refused):
    code = "incompatible"
    title = "It cannot be recovered here"


class Deleted(Refused):
    code = "deleted"
    title = "That run was deleted"


class QuotaReached(Refused):
    code = "quota_reached"
    title = "At the limit"


class ConfigurationError(WorkflowError):
    code = "configuration"
    title = "The configuration is wrong"


class StoreError(WorkflowError):
    code = "store"
    title = "The workspace cannot be used"


class StoreInUse(StoreError):
    """Another process owns the store. ``pid`` is its process id where it is known."""

    code = "store_in_use"
    title = "Another process owns this workspace"

    def __init__(self, message: str, *, pid: int | None = None) -> None:
        super().__init__(message)
        self.pid = pid


class StoreTooNew(StoreError):
    code = "store_too_new"
    title = "Written by a newer version"


class StoreFailed(StoreError):
    code = "store_failed"
    title = "The disk refused"
