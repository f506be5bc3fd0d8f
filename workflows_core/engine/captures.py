"""Captured files: independent bytes under their SHA-256, read once and never again.

A capture is committed in the same transaction as the response that tells its version. What JavaScript reads of
it is journaled by reference; the bytes are put in just before they are given, live and in replay alike.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from extension_api.agent_runs import AgentRunRefused, AgentRuns

from .. import jsontext, limits
from ..errors import UsageError
from ..model import Capture, now
from .children import Outcome, OutcomeKind

logger = logging.getLogger(__name__)


class CaptureCall:
    """One captureArtifact() call and, once its task has ended, what became of it."""

    __slots__ = (
        "call_id", "capture", "late", "outcome", "path", "position", "source_step_id", "step_id", "task",
    )  # fmt: skip

    def __init__(
        self,
        call_id: int,
        step_id: str,
        source_step_id: str,
        path: str,
        position: tuple[int, int] | None,
    ) -> None:
        self.call_id = call_id
        self.step_id = step_id
        self.source_step_id = source_step_id
        self.path = path
        self.position = position
        #: Whether the call is taken up by a recovery, so that the file is not read when it was asked for.
        self.late = False
        self.capture: Capture | None = None
        self.outcome: Outcome | None = None
        self.task: Any = None

    async def run(self, run_id: str, child_run_id: str, runs: AgentRuns, poke: Callable[[], None]) -> None:
        """Read the file from the child's own folder, once. Never raises."""
        try:
            body, media_type = await runs.read_file(child_run_id, self.path, max_bytes=limits.CAPTURE_BYTES)
        except AgentRunRefused as error:
            self.outcome = Outcome(OutcomeKind.FAILED, code=error.code, message=error.message)
        except Exception as error:
            logger.exception("capturing %s failed", self.step_id)
            message = f"reading the file failed with {type(error).__name__}"
            self.outcome = Outcome(OutcomeKind.FAILED, code="capture_failed", message=message)
        else:
            if len(body) > limits.CAPTURE_BYTES:
                self.outcome = Outcome(
                    OutcomeKind.TOO_LARGE,
                    code="capture_too_large",
                    message=f"the file has {len(body):,} bytes; admitted are {limits.CAPTURE_BYTES:,}",
                )
            else:
                self.take(run_id, body, media_type)
        poke()

    def take(self, run_id: str, body: bytes, media_type: str) -> None:
        self.capture = Capture(
            run_id=run_id,
            step_id=self.step_id,
            attempt=1,
            source_step_id=self.source_step_id,
            path=self.path,
            version=jsontext.sha256(body),
            media_type=media_type,
            body=body,
            captured_at=now(),
        )
        self.outcome = Outcome(OutcomeKind.SUCCESS, value=described(self.capture))


class ReadCall(msgspec.Struct, frozen=True):
    """One readArtifact() call."""

    call_id: int
    artifact_version: str
    offset: int
    position: tuple[int, int] | None


def intact(capture: Capture) -> bool:
    """Whether the kept bytes are still those that were captured, and so those that were approved."""
    return jsontext.sha256(capture.body) == capture.version


def described(capture: Capture) -> dict[str, Any]:
    return {
        "artifactVersion": capture.version,
        "mediaType": capture.media_type,
        "sha256": capture.version,
        "size": len(capture.body),
    }


def chunk(capture: Capture, offset: int) -> tuple[bytes, int | None]:
    """Up to 16 KiB from ``offset``, and the next offset or None at the end of the file.

    Raises UsageError for an offset outside the file.
    """
    if not 0 <= offset <= len(capture.body):
        raise UsageError(f"offset {offset} is outside the file, which has {len(capture.body):,} bytes")
    data = capture.body[offset : offset + limits.READ_BYTES]
    end = offset + len(data)
    return data, end if end < len(capture.body) else None


def read_reference(capture: Capture, offset: int) -> dict[str, Any]:
    """The journaled form of a read: version, offset, length and hash of the bytes, not the bytes."""
    data, following = chunk(capture, offset)
    return {
        "length": len(data),
        "next_offset": following,
        "offset": offset,
        "sha256": jsontext.sha256(data),
        "version": capture.version,
    }
