"""What the Runs screen asks: whether to recover, after its preview, and what became of an uncertain step."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import on, work
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input

from workflows_core import jsontext, limits
from workflows_core.engine.evidence import Evidence
from workflows_core.engine.reconciliation import ReconcileRequest, check_evidence
from workflows_core.engine.waits import REASON_LENGTH
from workflows_core.errors import UsageError, WorkflowError
from workflows_core.model import RunView, StepView

from ... import acts, words
from ...inert import cells, inert
from ...scripts import read_text
from .. import keymap
from ..widgets.choice import Choice
from ..widgets.editor_form import Setting, TextBlock
from ..widgets.lines import Line, Span, fit, wrap
from ..widgets.pane import Field, Pane
from .dialogs import Answer, Dialog, DialogText, Modal

if TYPE_CHECKING:
    from workflows_core.engine.recovery import Preview, StepAt

_GROUPS: Final = (
    ("reused", "recorded results, used again; nobody is asked", "good"),
    ("observed", "child runs, watched to their end", "running"),
    ("uncertain", "nobody knows what became of them", "bad"),
    ("new", "calls that would start", "accent"),
)
_STEP_WIDTH: Final = 24


class RecoverDialog(Dialog):
    """What recovering ``view`` would do, and whether to. The result is ``recover``, ``cancel`` or None.

    Where it cannot be recovered, the reasons and the way out are said, and recover is not among the answers.
    """

    WIDTH = 96

    def __init__(self, view: RunView, preview: Preview, now: int) -> None:
        answers = [Answer("leave", "Leave it as it is")]
        if preview.compatible:
            answers.append(Answer("recover", "Recover"))
        else:
            answers.append(Answer("cancel", "Cancel the run", danger=True))
        super().__init__(
            "Recover this run?" if preview.compatible else "It cannot be recovered now", "", answers
        )
        self._view = view
        self._preview = preview
        self._now = now

    def text_lines(self, width: int) -> list[Line]:
        view, preview = self._view, self._preview
        source = view.script.split("\n")
        name = f"{inert(view.name) or 'unnamed'}, {words.condition(view, self._now)}"
        lines: list[Line] = [*_said(name, width, "strong"), *_said(view.run_id, width, "quiet"), ()]
        for reason in preview.reasons:
            lines += _said(f"{_sentence(reason)}", width, "waiting" if preview.compatible else "bad")
        if lines[-1]:
            lines.append(())
        groups: list[Sequence[StepAt]] = [getattr(preview, group) for group, _, _ in _GROUPS]
        longest = max((cells(inert(step.step_id)) for steps in groups for step in steps), default=0)
        for (group, meaning, tone), steps in zip(_GROUPS, groups, strict=True):
            if steps:
                lines.append((Span(f"{len(steps)} {group}", tone), Span(f"  {meaning}", "quiet")))
                lines += [_step_line(step, source, min(_STEP_WIDTH, longest), width) for step in steps]
        if lines[-1]:
            lines.append(())
        return lines + _said(self._outlook(), width)

    def _outlook(self) -> str:
        """What happens then, or the way out."""
        view, preview = self._view, self._preview
        if not preview.compatible:
            return (
                "Put back what changed and look again, or cancel the run: its children are observed to their end "
                "and what they did is kept. Nothing was changed by looking."
            )
        if preview.uncertain:
            then = "It stops at once and needs reconciliation, for nobody knows what became of a step."
        elif view.waiting is not None:
            then = f"Then it waits for {words.awaited(view.waiting)} again."
        elif preview.new:
            then = "Then it goes on with the new calls above, which cannot be taken back."
        else:
            then = "Then it goes on behind what is recorded."
        return f"A new worker replays the journal; no Agent is asked twice. {then}"


def _sentence(reason: str) -> str:
    """A reason as a sentence of its own."""
    return reason[:1].upper() + reason[1:] + ("" if reason.endswith(".") else ".")


def _said(text: str, width: int, tone: str = "") -> list[Line]:
    return [(Span(line, tone),) for line in wrap(text, width)]


def _step_line(step: StepAt, source: Sequence[str], known: int, width: int) -> Line:
    place = words.place(step.line, step.column)
    text = source[step.line - 1].strip() if step.line is not None and step.line <= len(source) else ""
    room = max(1, width - known - 13)
    return (
        Span("  "),
        Span(fit(step.step_id, known), "strong"),
        Span(f"  {place:>7}  ", "quiet"),
        Span(fit(text, room), "quiet"),
    )


_OUTCOMES: Final = ("did_not_run", "succeeded", "failed")
_SOURCES: Final = ("typed below", "from the child run")


class ReconcileDialog(Modal[ReconcileRequest | None]):
    """What became of one step: outcome, output where it succeeded, and how the person knows.

    Nothing is chosen beforehand and the focus starts on leaving it uncertain. ``known`` is what the host has on
    record, which the attestation is bound to, ``who`` is the acting session,
    ``folder`` what a relative ``@FILE`` of the output is relative to. The result is the request to put on record.
    """

    BINDINGS = keymap.bindings("dialog")
    AUTO_FOCUS: ClassVar[str] = ""
    DEFAULT_CSS = """
    ReconcileDialog #text { margin-bottom: 1; }
    ReconcileDialog #effect { margin: 1 0; }
    ReconcileDialog #problem { color: $text-error; }
    ReconcileDialog #answers { height: 1; margin-top: 1; }
    ReconcileDialog Field.-hidden, ReconcileDialog Setting.-hidden { display: none; }
    """

    def __init__(
        self,
        view: RunView,
        step: StepView,
        known: Evidence,
        *,
        who: str,
        now: int,
        folder: Path,
        unicode: bool = True,
    ) -> None:
        super().__init__()
        self._view = view
        self._step = step
        self._known = known
        self._who = who
        self._now = now
        self._folder = folder
        self._lines = DialogText()
        # What the host sees running cannot be attested not to have run.
        self._outcomes = _OUTCOMES[1:] if known.running else _OUTCOMES
        shown = [words.OUTCOMES[outcome] for outcome in self._outcomes]
        self._outcome = Setting("Outcome", shown, all_shown=True, unicode=unicode, id="outcome")
        self._outcome.chosen = -1
        self._source = Setting("Output", _SOURCES, all_shown=True, unicode=unicode, id="source")
        self._output = Field(placeholder="output as JSON, or @FILE", id="output")
        self._effect = TextBlock(id="effect")
        self._reason = Field(placeholder="reason: how do you know?", id="reason")
        # Going back to a field that is to be put right must not select, and so endanger, what stands there.
        self._output.select_on_focus = self._reason.select_on_focus = False
        self._problem = TextBlock(id="problem")

    def content(self) -> Iterable[Widget]:
        yield self._lines
        yield self._outcome
        yield self._source
        yield self._output
        yield self._effect
        yield self._reason
        yield self._problem
        yield Horizontal(
            Choice("Leave it uncertain", name="leave"),
            Choice("Put it on record", name="record", danger=True),
            id="answers",
        )

    def on_mount(self) -> None:
        left = acts.unsettled(self._view)
        many = f" ({left.index(self._step) + 1} of {len(left)} unsettled)" if len(left) > 1 else ""
        self.query_one("#frame", Pane).set_title(f"Reconcile {self._step.step_id}{many}")
        self._lay_out()
        self._show()
        self.query(Choice).first().focus()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        width = max(20, min(96, self.size.width * 94 // 100) - 4)
        self._lines.say(self._facts, width)

    def _facts(self, width: int) -> list[Line]:
        """What is known of the step: its run, its call, its child run."""
        view, step = self._view, self._step
        source = view.script.split("\n")
        call = source[step.line - 1].strip() if step.line is not None and step.line <= len(source) else ""
        asked = (
            words.ago(step.requested_at, self._now) if step.requested_at is not None else "at an unknown time"
        )
        child = f"child run {step.child_run_id}" if step.child_run_id else "no child run is known"
        thread = f", thread {step.thread_id}" if step.thread_id else ""
        mark = words.step_mark(step)
        lines = [
            *_said(f"{inert(view.name) or 'unnamed'}, {view.run_id}", width, "strong"),
            *_said(
                f"{mark.word}: {inert(step.agent_ref or step.kind.value)}, asked {asked}; {child}{thread}",
                width,
            ),
        ]
        if step.error is not None:
            lines += _said(step.error.message, width, "bad")
        lines += _said(words.on_record(self._known), width)
        if call:
            place = f"{words.place(step.line, step.column)}  "
            lines.append((Span(place, "quiet"), Span(fit(call, max(1, width - len(place))), "quiet")))
        return lines

    # What is chosen

    @property
    def outcome(self) -> str | None:
        """The outcome that is chosen; None at first."""
        return None if self._outcome.chosen < 0 else self._outcomes[self._outcome.chosen]

    @property
    def _fetch(self) -> bool:
        return self.outcome == "succeeded" and self._source.chosen == 1

    @on(Setting.Pressed)
    def _turned(self, message: Setting.Pressed) -> None:
        message.stop()
        setting = message.setting
        count = len(self._outcomes) if setting is self._outcome else len(_SOURCES)
        setting.chosen = (setting.chosen + 1) % count
        setting.refresh()
        self._problem.show()
        self._show()

    def _show(self) -> None:
        succeeded = self.outcome == "succeeded"
        self._source.set_class(not succeeded, "-hidden")
        self._output.set_class(not succeeded or self._fetch, "-hidden")
        self._effect.show(*(Span(line) for line in self._effects()))

    def _effects(self) -> list[str]:
        """What putting it on record does, and what cannot be undone."""
        if self.outcome is None:
            lines = [
                "Tab leads to the outcome and enter changes it. Until it is put on record, nothing happens."
            ]
            if self._known.running:
                lines.append(
                    "The child run is running, so it cannot be said not to have run. Look again once it has ended, "
                    "or cancel the run, which interrupts it."
                )
            return lines
        agent = inert(self._step.agent_ref or "the Agent")
        effect = {
            "did_not_run": f"Recovering may then ask {agent} again, as the same step. If it did run, its work is "
            "done twice.",
            "succeeded": "The script is given this output as the step's result, with the badge attested.",
            "failed": "The script is given an error with your reason; unless it catches that, the run fails.",
        }[self.outcome]
        if self._fetch:
            effect = f"{words.output_on_record(self._known)} {effect}"
        left = [step for step in acts.unsettled(self._view) if step.step_id != self._step.step_id]
        if left:
            then = f"{words.count(len(left), 'step stays', 'steps stay')} unsettled."
        elif self._view.cancel_requested:
            then = "The run is then cancelled, because a cancel is recorded."
        else:
            then = "The run can then be recovered."
        return [f"{effect} {then}", f"It is kept with your name ({self._who}) and cannot be taken back."]

    # Answers

    @on(Input.Submitted)
    def _typed(self, message: Input.Submitted) -> None:
        """Nothing is recorded by typing alone: enter leads to the safe answer."""
        message.stop()
        self.query(Choice).first().focus()

    @on(Choice.Pressed)
    def _answered(self, message: Choice.Pressed) -> None:
        message.stop()
        if message.name == "leave":
            self.finish(None)
        else:
            self._record()

    @work(group="act", exclusive=True, exit_on_error=False)
    async def _record(self) -> None:
        """Close with the request, or say what is missing and go there."""
        outcome, reason = self.outcome, self._reason.value.strip()
        if outcome is None:
            self._refuse("Choose what became of it first.", self._outcome)
            return
        typed = outcome == "succeeded" and not self._fetch
        output: Any = None
        if typed:
            try:
                output = await asyncio.to_thread(read_output, self._output.value.strip(), self._folder)
            except WorkflowError as error:
                self._refuse(_sentence(str(error)), self._output)
                return
        if not reason or len(reason) > REASON_LENGTH:
            self._refuse(f"A record needs a reason of at most {REASON_LENGTH:,} characters.", self._reason)
            return
        request = ReconcileRequest(
            run_id=self._view.run_id,
            step_id=self._step.step_id,
            outcome=outcome,
            reason=reason,
            output=output,
            has_output=typed,
            fetch=self._fetch,
            evidence_hash=self._known.hash,
        )
        try:
            check_evidence(request, self._known)
        except WorkflowError as error:
            self._refuse(_sentence(str(error)), self._outcome)
            return
        self.finish(request)

    def _refuse(self, problem: str, where: Widget) -> None:
        self._problem.show(Span(problem))
        where.focus()


def read_output(text: str, folder: Path) -> Any:
    """The output that ``text`` says: JSON, or ``@FILE`` with JSON in it, relative to ``folder``.

    Raises UsageError and LimitExceeded in words.
    """
    where = "the output"
    if text.startswith("@"):
        path = folder / os.path.expanduser(text[1:])  # noqa: PTH111 - never raises
        text = read_text(path, where)
    elif not text:
        raise UsageError('it needs an output: JSON such as {"verdict": "pass"}, or @FILE')
    try:
        value = jsontext.parse(text, where)
        size = jsontext.size(value, where)
    except jsontext.JsonRefused as error:
        raise UsageError(str(error)) from None
    if size > limits.OUTPUT_BYTES:
        raise UsageError(f"the output takes {size:,} bytes; admitted are {limits.OUTPUT_BYTES:,}")
    return value
