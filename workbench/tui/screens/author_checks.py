"""Checking a script while it is written: 300 ms after the last edit, off the screen's loop, newest text only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from textual.screen import Screen
from textual.timer import Timer

from workflows_core.errors import ConfigurationError, ScriptRefused
from workflows_core.limits import EngineConfig, engine_config
from workflows_core.script.problem import Problem

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


def check(text: str, args: Any, settings: EngineConfig) -> Checked:
    """Check a script, the engine's own compiler included. Blocks: call it in a thread of its own."""
    from workflows_core.script.check import calls_bound, check_script

    problems = asyncio.run(
        check_script(text, agents=settings.agents, max_calls=settings.limits.max_calls, args=args)
    )
    try:
        bound: tuple[int, bool] | None = calls_bound(text)
    except (ScriptRefused, RecursionError):
        bound = None
    return Checked(text, args, problems, bound)


class Checker:
    """Checks what ``read`` gives (text and arguments; None: nothing is open) and hands the answer to ``done``.

    One check runs at a time; an answer that is no longer about the text that stands there is dropped.
    """

    def __init__(
        self,
        screen: Screen[Any],
        workspace: Workspace,
        read: Callable[[], tuple[str, Any] | None],
        done: Callable[[Checked], None],
    ) -> None:
        self._screen = screen
        self._workspace = workspace
        self._read = read
        self._done = done
        self._timer: Timer | None = None
        self._running: asyncio.Future[Checked] | None = None

    def soon(self) -> None:
        """The text changed: check it once it has stood still for DELAY_SECONDS."""
        self.cancel()
        self._timer = self._screen.set_timer(DELAY_SECONDS, self.start)

    def start(self) -> None:
        """Check now, in a worker of the screen."""
        self.cancel()
        self._screen.run_worker(self.now(), group="check", exclusive=True, exit_on_error=False)

    def cancel(self) -> None:
        """Forget a check that is due."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    async def now(self) -> Checked | None:
        """Check what stands there now and return the answer; None where nothing is open."""
        self.cancel()
        subject = self._read()
        if subject is None:
            return None
        settings = engine_settings(self._workspace)
        while self._running is not None and not self._running.done():
            # A thread cannot be stopped; a second one beside it would only slow both down.
            await asyncio.wait({self._running})
        self._running = asyncio.get_running_loop().run_in_executor(None, check, *subject, settings)
        self._running.add_done_callback(_retrieve)
        checked = await asyncio.shield(self._running)
        if self._read() == subject:
            self._done(checked)
        return checked


def _retrieve(done: asyncio.Future[Checked]) -> None:
    """Take the exception of a check that nobody waits for any more."""
    if not done.cancelled():
        done.exception()
