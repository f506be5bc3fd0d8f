"""How records, frames and marks are laid out in rows; shared by the writer and the readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from .. import jsontext
from ..errors import StoreFailed
from ..journal.frames import Frame, FrameKind, Mark, encode_side, kept_side
from ..limits import Limits
from ..model import (
    RECORD_DAMAGED,
    Attestation,
    Capture,
    Cause,
    Decision,
    Definition,
    RunRecord,
    RunState,
    Wait,
)
from .base import InboxRow


class _Rest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields of a record that live in the JSON column ``record``."""

    last_progress: int
    args_hash: str
    configuration_revision: str
    runtime_signature: str
    agents: tuple[str, ...]
    limits: Limits
    cause: Cause | None = None
    waiting: Wait | None = None
    parent_run_id: str | None = None
    result: Any = None
    has_result: bool = False
    definition: str | None = None
    used: int = 0
    active_since: int | None = None
    configuration_components: Mapping[str, str] = {}


RUN_COLUMNS: Final = (
    "run_id, owner, request_id, name, state, revision, created_at, since, script_hash, options_hash, "
    "identity_hash, cancel_requested_at, owner_incarnation, record"
)
FRAME_COLUMNS: Final = "number, kind, body, hash, at, side"
MARK_COLUMNS: Final = "seq, after_frame, at, side"
DECISION_COLUMNS: Final = "run_id, step_id, attempt, decision, sha256, reason, actor, review, decided_at"
CAPTURE_COLUMNS: Final = (
    "run_id, step_id, attempt, source_step_id, path, version, media_type, size, body, captured_at"
)
ATTESTATION_COLUMNS: Final = (
    "run_id, step_id, attempt, outcome, reason, statement_hash, evidence_hash, actor, settles, attested_at"
)
INBOX_COLUMNS: Final = "id, kind, run_id, body, actor, created_at, settled_at, outcome, detail"

#: The body of a settled control: what it asked for is done or refused, and nobody needs it any more.
EMPTY: Final = b"{}"
#: The kind of a control row whose body or actor is no JSON object.
UNREADABLE: Final = "unreadable"

_ENCODER = msgspec.json.Encoder()
_REST = msgspec.json.Decoder(_Rest)
_OBJECT = msgspec.json.Decoder(dict[str, Any])


def options_bytes(options: Mapping[str, Any]) -> bytes:
    return jsontext.encode(dict(options), "the launch options")


def run_row(record: RunRecord, options_hash: str) -> tuple[Any, ...]:
    rest = _Rest(
        last_progress=record.last_progress,
        args_hash=record.args_hash,
        configuration_revision=record.configuration_revision,
        runtime_signature=record.runtime_signature,
        agents=record.agents,
        limits=record.limits,
        cause=record.cause,
        waiting=record.waiting,
        parent_run_id=record.parent_run_id,
        result=record.result,
        has_result=record.has_result,
        definition=record.definition,
        used=record.used,
        active_since=record.active_since,
        configuration_components=record.configuration_components,
    )
    return (
        record.run_id,
        record.owner,
        record.request_id,
        record.name,
        record.state.value,
        record.revision,
        record.created_at,
        record.since,
        record.script_hash,
        options_hash,
        record.identity_hash,
        record.cancel_requested_at,
        record.owner_incarnation,
        _ENCODER.encode(rest),
    )


def run_record(row: Any, options: Mapping[str, Any]) -> RunRecord:
    """A record from a row of RUN_COLUMNS; ``options`` are loaded apart, since lists do not need them.

    One whose JSON was damaged is still a record, with a cause that says so: it can be looked at, cancelled and
    deleted, and nothing matches what a recovery needs.
    """
    try:
        rest = _REST.decode(row[13])
    except (msgspec.MsgspecError, TypeError, UnicodeDecodeError):
        rest = _damaged(row[7])
    return RunRecord(
        run_id=row[0],
        owner=row[1],
        request_id=row[2],
        name=row[3],
        state=RunState(row[4]),
        revision=row[5],
        created_at=row[6],
        since=row[7],
        script_hash=row[8],
        identity_hash=row[10],
        cancel_requested_at=row[11],
        owner_incarnation=row[12],
        options=options,
        last_progress=rest.last_progress,
        args_hash=rest.args_hash,
        configuration_revision=rest.configuration_revision,
        runtime_signature=rest.runtime_signature,
        agents=rest.agents,
        limits=rest.limits,
        cause=rest.cause,
        waiting=rest.waiting,
        parent_run_id=rest.parent_run_id,
        result=rest.result,
        has_result=rest.has_result,
        definition=rest.definition,
        used=rest.used,
        active_since=rest.active_since,
        configuration_components=rest.configuration_components,
    )


def frame_row(run_id: str, frame: Frame) -> tuple[Any, ...]:
    return (
        run_id,
        frame.number,
        frame.kind.value,
        frame.body,
        frame.hash,
        frame.at,
        encode_side(frame.side),
    )


def _damaged(since: int) -> _Rest:
    cause = Cause(RECORD_DAMAGED, "its record in the store is damaged. It can be cancelled and deleted only")
    return _Rest(since, "", "", "", (), Limits(), cause)


def frame(row: Any) -> Frame:
    return Frame(row[0], FrameKind(row[1]), row[2], row[3], row[4], kept_side(row[5]))


def mark_row(run_id: str, mark: Mark) -> tuple[Any, ...]:
    return (run_id, mark.seq, mark.after_frame, mark.at, encode_side(mark.side))


def mark(row: Any) -> Mark:
    return Mark(row[0], row[1], row[2], kept_side(row[3]))


def decision_row(decision: Decision) -> tuple[Any, ...]:
    return (
        decision.run_id,
        decision.step_id,
        decision.attempt,
        decision.decision,
        decision.sha256,
        decision.reason,
        _ENCODER.encode(decision.actor),
        _ENCODER.encode(decision.review),
        decision.decided_at,
    )


def decision(row: Any) -> Decision:
    return Decision(
        run_id=row[0],
        step_id=row[1],
        attempt=row[2],
        decision=row[3],
        sha256=row[4],
        reason=row[5],
        actor=_OBJECT.decode(row[6]),
        review=_OBJECT.decode(row[7]),
        decided_at=row[8],
    )


def capture_row(capture: Capture) -> tuple[Any, ...]:
    return (
        capture.run_id,
        capture.step_id,
        capture.attempt,
        capture.source_step_id,
        capture.path,
        capture.version,
        capture.media_type,
        len(capture.body),
        capture.body,
        capture.captured_at,
    )


def capture(row: Any) -> Capture:
    return Capture(
        run_id=row[0],
        step_id=row[1],
        attempt=row[2],
        source_step_id=row[3],
        path=row[4],
        version=row[5],
        media_type=row[6],
        body=row[8],
        captured_at=row[9],
    )


def attestation_row(attestation: Attestation) -> tuple[Any, ...]:
    return (
        attestation.run_id,
        attestation.step_id,
        attestation.attempt,
        attestation.outcome,
        attestation.reason,
        attestation.statement_hash,
        attestation.evidence_hash,
        _ENCODER.encode(attestation.actor),
        int(attestation.settles),
        attestation.attested_at,
    )


def attestation(row: Any) -> Attestation:
    return Attestation(
        run_id=row[0],
        step_id=row[1],
        attempt=row[2],
        outcome=row[3],
        reason=row[4],
        statement_hash=row[5],
        evidence_hash=row[6],
        actor=_OBJECT.decode(row[7]),
        settles=bool(row[8]),
        attested_at=row[9],
    )


def check_saved(definition: Definition, script: bytes) -> None:
    """Raise StoreFailed where the kept script of a saved version is not the one that was saved."""
    if jsontext.sha256(script) != definition.version:
        raise StoreFailed(
            f"the kept script of {definition.name}@{definition.version[:7]} is not the one that was saved: the store "
            "was changed or is damaged. Save the script again from its file, or restore the store from a copy"
        )


def inbox(row: Any) -> InboxRow:
    detail = _OBJECT.decode(row[8]) if row[8] is not None else None
    kind = row[1]
    try:
        body, actor = _OBJECT.decode(row[3]), _OBJECT.decode(row[4])
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Its owner refuses it in words, so that the rows behind it are settled.
        kind, body, actor = UNREADABLE, {}, {}
    return InboxRow(
        row[0],
        kind,
        row[2],
        body,
        actor,
        row[5],
        row[6],
        row[7],
        detail,
    )


def decode_object(data: bytes) -> dict[str, Any]:
    return _OBJECT.decode(data)


def encode_object(value: Mapping[str, Any]) -> bytes:
    return _ENCODER.encode(value)
