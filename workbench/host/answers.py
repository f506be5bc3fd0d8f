"""A person's answer to a call of a manual agent: the control ``host.answer``.

It is data that an Agent is to have said, put on record under the person's name: so it needs an interactive session,
as a decision does. What cannot be kept is refused before the call hears of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from extension_api.agent_runs import AgentRuns, AgentRunStatus
from workflows_core import jsontext
from workflows_core.errors import Conflict, LimitExceeded, NotFound, NotPermitted, UsageError
from workflows_core.limits import OUTPUT_BYTES

from ..agents.base import Answer, Backends
from ..agents.manual import ManualBackend
from ..agents.names import MANUAL
from .runs import ChildRuns

KIND: Final = "host.answer"
REASON_LENGTH: Final = 2_000


class _Given(msgspec.Struct, frozen=True):
    """``failed`` is a sentence where the person cannot answer; else ``output`` counts."""

    child_run_id: str
    output: Any = None
    failed: str | None = None


class Answers:
    """Gives answers to the manual calls of one host."""

    def __init__(self, runs: ChildRuns, backends: Backends) -> None:
        self._runs = runs
        self._backends = backends

    def apply(self, body: Mapping[str, Any], session: AgentRuns) -> dict[str, Any]:
        """Answer the child run that ``body`` names; returns ``{status, message, run_ids}``.

        Raises NotPermitted without an interactive session, NotFound, Conflict where it does not wait,
        UsageError and LimitExceeded for what cannot be kept.
        """
        try:
            given = msgspec.convert(body, _Given)
        except msgspec.ValidationError as error:
            raise UsageError(f"the command is malformed: {error}") from None
        if session.session.mode == "disabled" or not session.session.interactive:
            raise NotPermitted(
                "an answer needs an interactive session: standard input, standard output and the controlling "
                "terminal must be one terminal"
            )
        principal = session.principal
        live = self._runs.live.get(given.child_run_id)
        if live is None or not (live.row.owner == principal.user_id or principal.is_admin):
            raise NotFound(f"no call waits as child run {given.child_run_id[:80]}; it may have ended")
        row = live.row
        backend = self._backends.get(MANUAL) if row.backend == MANUAL else None
        if not isinstance(backend, ManualBackend):
            raise Conflict(f"{row.step_id} is not answered by a person; its Agent {row.agent_ref} is asked")
        backend.answer(row.run_id, _answer(given, f"{principal.user_id} ({session.session.description})"))
        return {
            "status": "applied",
            "message": f"{row.step_id} is answered",
            "run_ids": [row.workflow_run],
        }


def _answer(given: _Given, who: str) -> Answer:
    if given.failed is not None:
        reason = given.failed.strip()
        if not reason or len(reason) > REASON_LENGTH:
            raise UsageError(f"to fail a call needs a reason of at most {REASON_LENGTH:,} characters")
        return Answer(
            AgentRunStatus.ERROR, error_code="answered_failed", error_message=reason, answered_by=who
        )
    try:
        encoded = jsontext.encode(given.output, "the answer")
        jsontext.parse(encoded, "the answer")
    except jsontext.JsonRefused as error:
        raise UsageError(str(error)) from None
    if len(encoded) > OUTPUT_BYTES:
        raise LimitExceeded(f"the answer takes {len(encoded):,} bytes; admitted are {OUTPUT_BYTES:,}")
    return Answer(AgentRunStatus.SUCCESS, output=given.output, answered_by=who)
