"""From the command line to the running application, and back with the terminal as it was."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final

from ..settings import Settings
from . import guard
from .app import WorkbenchApp
from .collector import IdleCollector
from .context import AppContext
from .graphics import detect

if TYPE_CHECKING:
    from ..client import Client
    from ..replaying import Given
    from ..workspace import Workspace

#: How long one thread may keep the others waiting. What is painted reaches the terminal through a thread of its
#: own, which waits for the others at each of its writes; so do keys while the engine works in its thread.
SWITCH_SECONDS: Final = 0.0005
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
#: Seconds after which opening and stopping say that they are under way.
_PATIENCE: Final = 0.5


def run(
    workspace: Workspace,
    client_factory: Callable[[], Awaitable[Client]],
    screen: str,
    given: Given | None = None,
) -> int:
    """See ``workbench.tui.app.run_app``."""
    settings = Settings.load(workspace.root, keymap=workspace.config.keymap, theme=workspace.config.theme)
    saved = _attributes()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        with guard.watched():
            return asyncio.run(_run(workspace, client_factory, settings, screen, given))
    except BaseException:
        if saved is not None:
            guard.reset()
        raise
    finally:
        sys.setswitchinterval(interval)
        if saved is not None:
            _give_back(saved)


async def _run(
    workspace: Workspace,
    client_factory: Callable[[], Awaitable[Client]],
    settings: Settings,
    screen: str,
    given: Given | None,
) -> int:
    async with _saying("opening the workspace"):
        client = await client_factory()
    try:
        with guard.kept_title() if os.environ.get("TMUX") else nullcontext():
            graphics = detect()  # tmux takes the question for a title
        context = AppContext(client, workspace, settings, graphics=graphics)
        hosting = _Hosting(client)
        app = WorkbenchApp(
            context,
            screen=screen,
            collector=IdleCollector(time.monotonic),
            painted=hosting.start,
            given=given,
        )
        hosting.app = app
        loop = asyncio.get_running_loop()
        for number in _ENDING:
            loop.add_signal_handler(number, app.exit, 128 + number)
        try:
            with guard.kept_title():
                code = await app.run_async(mouse=settings.mouse)
        finally:
            for number in _ENDING:
                loop.remove_signal_handler(number)
            await hosting.end()
        return app.return_code or code or 0
    finally:
        async with _saying("stopping the engine"):
            await client.close()


class _Hosting:
    """Hosts the engine once there is something to see, so that the first paint does not wait for it.

    A workspace that cannot be hosted ends the application, and ``end`` raises why.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._task: asyncio.Task[bool] | None = None
        self.app: WorkbenchApp | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._client.start_hosting())
        self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[bool]) -> None:
        assert self.app is not None
        if task.cancelled() or task.exception() is not None:
            self.app.exit(1)
        else:
            self.app.hosting_changed()

    async def end(self) -> None:
        """Wait until opening has come to its end. Raises what it raised."""
        if self._task is not None:
            await self._task


@asynccontextmanager
async def _saying(what: str) -> AsyncIterator[None]:
    """Say on standard error that something takes its time, where a person is looking."""
    loop = asyncio.get_running_loop()
    timer = loop.call_later(_PATIENCE, _say, what) if sys.stderr.isatty() else None
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()


def _say(what: str) -> None:
    sys.stderr.write(f"{what}…\n")
    sys.stderr.flush()


def _attributes() -> list[Any] | None:
    """The settings of the terminal on standard input, or None where there is none."""
    try:
        return termios.tcgetattr(sys.__stdin__.fileno())  # type: ignore[union-attr]
    except (AttributeError, OSError, ValueError, termios.error):
        return None


def _give_back(saved: list[Any]) -> None:
    """Set the terminal as it was. One that is gone (its window was closed) needs nothing."""
    with suppress(AttributeError, OSError, ValueError, termios.error):
        termios.tcsetattr(sys.__stdin__.fileno(), termios.TCSANOW, saved)  # type: ignore[union-attr]
