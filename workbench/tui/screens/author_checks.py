"""Checking a script while it is written: 300 ms after the last edit, in a process of its own, newest text only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from textual.screen import Screen
from textual.timer import Timer

from workflows_core.errors import ConfigurationError
from workflows_core.limits import EngineConfig, engine_config
from workflows_core.script.problem import Problem

from ...completing import Word
from .author_check_process import CheckProcess, Question

if TYPE_CHECKING:
    from ...workspace import Workspace

DELAY_SECONDS: Final = 0.3


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found in ``text`` with ``args`` (None: they cannot be sent, so they were not checked).

    ``bound`` is the most Agent calls a run can make, and whether that is open-ended; None: not known.
    """

    text: str
    args: Any
    problems: Sequence[Problem]
    bound: tuple[int, bool] | None
    #: What may be typed in it, for completion.
    words: Sequence[Word] = ()

    @property
    def errors(self) -> int:
        return sum(problem.severity == "error" for problem in self.problems)


def engine_settings(workspace: Workspace) -> EngineConfig:
    """The Agents and limits of the workspace's workflow plugin. Raises ConfigurationError."""
    record = workspace.config.workflows
    if record is None:
        raise ConfigurationError(
            "this workspace loads no workflow engine: its plugins list has no enabled record for it"
        )
    return engine_config(record.config)


class Checker:
    """Checks what ``read`` gives (text and arguments; None: nothing is open) and hands the answer to ``done``.

    ``begin`` starts a worker that awaits ``now``. An answer that is no longer about the text that stands there is
    dropped.
    """

    def __init__(
        self,
        screen: Screen[Any],
        workspace: Workspace,
        begin: Callable[[], object],
        read: Callable[[], tuple[str, Any] | None],
        done: Callable[[Checked], None],
    ) -> None:
        self._screen = screen
        self._workspace = workspace
        self._begin = begin
        self._read = read
        self._done = done
        self._timer: Timer | None = None
        self._process = CheckProcess()

    def soon(self) -> None:
        """The text changed: check it once it has stood still for DELAY_SECONDS."""
        self.cancel()
        self._timer = self._screen.set_timer(DELAY_SECONDS, self.start)

    def start(self) -> None:
        """Check now, in a worker of the screen."""
        self.cancel()
        self._begin()

    def cancel(self) -> None:
        """Forget a check that is due."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    async def now(self) -> Checked | None:
        """Check what stands there now and return the answer; None where nothing is open. Raises CheckFailed."""
        self.cancel()
        subject = self._read()
        if subject is None:
            return None
        text, args = subject
        settings = engine_settings(self._workspace)
        found = await self._process.ask(
            Question(_text(text), args, settings.agents, settings.limits.max_calls)
        )
        checked = Checked(text, args, found.problems, found.bound, found.words)
        if self._read() == subject:
            self._done(checked)
        return checked

    async def close(self) -> None:
        """Forget what is due and end the process."""
        self.cancel()
        await self._process.close()


def _text(text: str) -> str:
    """The text as JSON can carry it: half a surrogate pair, which no file can hold, becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")
