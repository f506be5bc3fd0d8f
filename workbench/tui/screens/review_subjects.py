"""Reads what is under review: a run's wait or a receipt, with the exact bytes and what is said about them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from workflows_core.errors import NotFound, StoreFailed
from workflows_core.model import Artifact, RunState, RunView, StepKind, StepStatus

from ... import words
from ...inert import inert
from ...review import Act, Decided, Progress, Waiting, consumers, digest, step_of, told
from ..widgets.bytes_view import LARGE
from ..widgets.json_bytes import JsonTokens
from ..widgets.lines import Line, Span, wrap
from ..widgets.review_detail import Subject, tokens_of
from ..widgets.review_rows import decision_mark
from .run_answer import facts, instructions_of

if TYPE_CHECKING:
    from ...client import Client
    from ...workspace import Workspace

#: Outputs whose lines are kept, so that going back and forth in the list reads nothing twice.
_KEPT: Final = 8
_UNDER_WAY: Final = (StepStatus.QUEUED, StepStatus.RUNNING)


class Subjects:
    """Makes subjects, and keeps how far the review of each has come for the session of the application."""

    def __init__(
        self, client: Client, workspace: Workspace, clock: Callable[[], int], *, unicode: bool
    ) -> None:
        self._client = client
        self._workspace = workspace
        self._clock = clock
        self._unicode = unicode
        self._progress: dict[str, Progress] = {}
        self._artifacts: dict[str, tuple[Artifact, JsonTokens | None]] = {}

    async def waiting(self, item: Waiting) -> Subject:
        """Raises what the client raises, and StoreFailed where the bytes are not those of the checkpoint."""
        view = await self._client.view(item.run_id)
        title = f"{item.step_id or 'Review'} of {item.name or item.run_id}"
        if item.act is not Act.DECIDE:
            about = self._about(view, item) if item.child_run_id is None else self._asked(view, item)
            return Subject(item.id, title, view, self._header(view, item, None), item=item, about=about)
        artifact, tokens = await self._artifact(view, item.step_id)
        step = step_of(view, item.step_id, item.attempt)
        if step is None or step.artifact_version != digest(artifact):
            raise StoreFailed(
                f"the stored bytes are not the version that {item.step_id} asks about; nothing can be decided"
            )
        progress = self._progress.get(item.id)
        if progress is None or progress.sha256 != digest(artifact):
            progress = self._progress[item.id] = Progress.of(artifact)
        return Subject(
            item.id,
            title,
            view,
            self._header(view, item, artifact),
            item=item,
            artifact=artifact,
            tokens=tokens,
            progress=progress,
        )

    async def decided(self, item: Decided) -> Subject:
        """A receipt with its content, where the bytes can still be read and are those decided about."""
        view = await self._client.view(item.receipt.run_id)
        artifact, tokens, about = None, None, ""
        if item.receipt.sha256 is not None:
            try:
                artifact, tokens = await self._artifact(view, item.receipt.step_id)
            except NotFound as error:
                about = str(error)
            if artifact is not None and digest(artifact) != item.receipt.sha256:
                artifact, tokens = None, None
                about = (
                    "The stored bytes are not the ones that were decided about, so they are not shown here."
                )
        header = self._receipt_header(view, item, artifact)
        title = f"{item.receipt.step_id} of {item.name or item.receipt.run_id}"
        return Subject(
            item.id, title, view, header, receipt=item.receipt, artifact=artifact, tokens=tokens, about=about
        )

    async def _artifact(self, view: RunView, step_id: str) -> tuple[Artifact, JsonTokens | None]:
        artifact = await self._client.artifact(view.run_id, step_id)
        key = f"{view.run_id}\n{step_id}\n{digest(artifact)}"
        known = self._artifacts.pop(key, None)
        if known is None:
            large = len(artifact.body) > LARGE
            known = artifact, (await asyncio.to_thread(tokens_of, artifact) if large else tokens_of(artifact))
        self._artifacts[key] = known
        while len(self._artifacts) > _KEPT:
            del self._artifacts[next(iter(self._artifacts))]
        return known

    # The lines above the tabs

    def _header(self, view: RunView, item: Waiting, artifact: Artifact | None) -> Callable[[int], list[Line]]:
        next_steps = consumers(view, item.step_id, item.attempt)
        mark = item.mark
        glyph = mark.glyph if self._unicode else mark.ascii

        def lines(width: int) -> list[Line]:
            now = self._clock()
            # The run of a question goes on, so its own state is another one than that of the question.
            asked = f"waiting for your answer for {words.span(now - item.since)}"
            said = words.condition(view, now) if item.child_run_id is None else asked
            parts = [*_wrapped(f"{glyph} {said}", mark.tone, width)]
            if artifact is not None:
                parts += _wrapped(self._content(artifact), "quiet", width, "  ")
            if item.act in (Act.DECIDE, Act.RESUME):
                parts += _wrapped(told(next_steps), "quiet", width, "  ")
            if item.child_run_id is not None:
                said = told(next_steps, "The answer goes")
                parts += _wrapped(f"{said} {_until_when(view)}", "quiet", width, "  ")
            if refused := item.refused(now):
                parts += _wrapped(refused, "bad", width, "  ")
            elif item.retained:
                parts += _wrapped(
                    "The run's owner is gone: answering recovers the run first.", "waiting", width, "  "
                )
            return parts

        return lines

    def _receipt_header(
        self, view: RunView, item: Decided, artifact: Artifact | None
    ) -> Callable[[int], list[Line]]:
        receipt = item.receipt
        mark = decision_mark(receipt.decision)
        glyph = mark.glyph if self._unicode else mark.ascii

        def lines(width: int) -> list[Line]:
            now = self._clock()
            who = inert(str(receipt.actor.get("user_id", "somebody")))
            said = f"{glyph} {mark.word} by {who} {words.ago(receipt.decided_at, now)}"
            parts = [*_wrapped(said, mark.tone, width)]
            if artifact is not None:
                parts += _wrapped(self._content(artifact), "quiet", width, "  ")
            return parts + _wrapped(f"run {words.condition(view, now)}", "quiet", width, "  ")

        return lines

    def _content(self, artifact: Artifact) -> str:
        dot = " · " if self._unicode else " - "
        source = f"file {artifact.path}" if artifact.path else f"output of {artifact.step_id}"
        parts = [source, artifact.media_type, words.kib(len(artifact.body)), f"hash {digest(artifact)[:7]}"]
        return dot.join(inert(part) for part in parts)

    def _asked(self, view: RunView, item: Waiting) -> str:
        """What a manual agent is asked. The text is inert."""
        step = step_of(view, item.step_id, item.attempt)
        if step is None:
            return f"{inert(item.step_id)} has no place in the run's journal yet."
        return "\n".join(text for text, _ in facts(view, step, instructions_of(self._workspace, step)))

    def _about(self, view: RunView, item: Waiting) -> str:
        """What a wait without bytes is about, and what to do."""
        if item.act is Act.RESUME:
            step = step_of(view, item.step_id, item.attempt)
            where = f" in line {step.line}" if step is not None and step.line is not None else ""
            done = [
                f"  {inert(each.step_id)}: {words.step_mark(each).word}"
                for each in view.steps
                if each.kind is not StepKind.PAUSE
            ]
            said = [f"  {inert(line.message)}" for line in view.log[-5:]]
            return "\n".join(
                [
                    f"The script stopped at its pause {inert(item.step_id)}{where}. Resume lets it go on.",
                    *(["", "Steps so far", *done] if done else []),
                    *(["", "What it logged last", *said] if said else []),
                ]
            )
        open_steps = [
            f"  {inert(step.step_id)}: {words.step_mark(step).word}" for step in view.steps if step.unsettled
        ]
        if view.state is RunState.NEEDS_RECONCILIATION:
            what = "Nobody knows what became of these steps. A person has to say it; until then the run stays here."
        else:
            what = "An agent asks a human. Answer it where the agent lives, then settle the step."
        because = words.because(view)
        return "\n".join(
            [
                what,
                *([because] if because else []),
                "",
                *open_steps,
                "",
                "Runs shows the run with what can be done.",
            ]
        )


def _until_when(view: RunView) -> str:
    """How long the questions of a run wait: its time counts only while something else of it is under way too."""
    asked = {step.step_id for step in words.awaiting_answer(view)}
    if any(step.step_id not in asked and step.status in _UNDER_WAY for step in view.steps):
        return "It has no deadline of its own, but the run's time counts while its other calls are under way."
    return "It has no deadline: the run's time stands still while it waits for people alone."


def _wrapped(text: str, tone: str, width: int, indent: str = "") -> list[Line]:
    lines = wrap(text, max(10, width - 2))
    return [(Span((indent or ("" if n == 0 else "  ")) + line, tone),) for n, line in enumerate(lines)]
