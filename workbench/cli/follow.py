"""Following a run: one line on standard error for each step event and each log message."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from workbench import words
from workbench.inert import inert, pad
from workflows_core.model import LogLine, RunState, RunView, StepStatus, StepView, now

from .output import Output, Piece

if TYPE_CHECKING:
    from workbench.client import Client

#: Changes are collected for this long before they are looked at.
_PAUSE_SECONDS: Final = 0.03
#: How often to look without being told: an owner that died tells nothing.
_LOOK_SECONDS: Final = 1.0
MOVING: Final = frozenset({RunState.QUEUED, RunState.RUNNING})


async def follow(client: Client, run_id: str, output: Output, known: RunView | None = None) -> RunView:
    """Report the run's progress until it ends, waits or stops; return it as it was then.

    What ``known`` shows already is not reported again.
    """
    reporter = _Reporter(output, known)
    with changes(client) as next_change:
        while True:
            view = await client.view(run_id)
            reporter.report(view)
            if view.state not in MOVING:
                return view
            await next_change()


@contextmanager
def changes(client: Client) -> Iterator[Callable[[], Awaitable[None]]]:
    """Gives a function that waits until any run has changed since it was last called, or a second."""
    changed = asyncio.Event()

    async def next_change() -> None:
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                await changed.wait()
            await asyncio.sleep(_PAUSE_SECONDS)
        except TimeoutError:
            pass
        changed.clear()

    unsubscribe = client.subscribe(lambda _run_id: changed.set())
    try:
        yield next_change
    finally:
        unsubscribe()


class _Reporter:
    """Knows what was reported already."""

    def __init__(self, output: Output, known: RunView | None = None) -> None:
        self._output = output
        self._reported: dict[tuple[str, int], StepStatus] = {}
        self._log = 0
        self._asked: set[str] = set()
        if known is not None:
            self._reported = {(step.step_id, step.attempt): step.status for step in known.steps}
            self._log = len(known.log)

    def report(self, view: RunView) -> None:
        """Write what is new in ``view``, in the order in which it happened."""
        at = now()
        events: list[tuple[int, int, LogLine | StepView]] = []
        for line in view.log[self._log :]:
            events.append((line.at, 1, line))
        self._log = len(view.log)
        for step in view.steps:
            key = (step.step_id, step.attempt)
            if step.status is StepStatus.QUEUED or self._reported.get(key) is step.status:
                continue
            self._reported[key] = step.status
            moment = step.finished_at or step.started_at or step.requested_at or 0
            # A wait is reached after everything else of its frame.
            events.append((moment, 2 if step.status is StepStatus.WAITING else 0, step))
        for _, _, event in sorted(events, key=lambda entry: entry[:2]):
            if isinstance(event, LogLine):
                self._log_line(event)
            else:
                self._step_line(event, at)
        for step in words.awaiting_answer(view):
            if step.step_id not in self._asked:
                self._asked.add(step.step_id)
                self._output.line(
                    f"    it waits for your answer, from another terminal: workbench answer {view.run_id} "
                    f"{inert(step.step_id)}"
                )

    def _step_line(self, step: StepView, at: int) -> None:
        mark = words.step_mark(step)
        took = "" if step.status is StepStatus.RUNNING else words.took(step, at)
        self._line(
            (mark.text(unicode=self._output.unicode), mark.tone),
            pad(inert(step.step_id), 20),
            pad(inert(step.agent_ref or step.kind.value), 14),
            pad(took, 9, right=True),
            line=step.line,
        )
        if step.error is not None:
            self._output.line(("    " + step.error.message, "bad"))

    def _log_line(self, line: LogLine) -> None:
        dot = "·" if self._output.unicode else "-"
        self._line((f"{dot} log", "quiet"), pad(inert(line.message), 47), line=line.line)

    def _line(self, state: tuple[str, str], *columns: Piece, line: int | None) -> None:
        pieces: list[Piece] = [(pad(state[0], 13), state[1])]
        for column in columns:
            pieces += ["  ", column]
        if line is not None:
            pieces.append((f"  line {line}", "quiet"))
        self._output.line(*pieces)
