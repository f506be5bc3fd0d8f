"""From the command line to the running application, and back with the terminal as it was."""

from __future__ import annotations

import asyncio
import logging
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
from .driver import TerminalDriver
from .graphics import detect

if TYPE_CHECKING:
    from ..client import Client
    from ..replaying import Given
    from ..workspace import Workspace

_LOG = logging.getLogger(__name__)
#: How long one thread may keep the others waiting. What is painted reaches the terminal through a thread of its
#: own, which waits for the others at each of its writes; so do keys while the engine works in its thread.
SWITCH_SECONDS: Final = 0.0005
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
#: Seconds between two looks at whether the terminal is still there.
_LOOK_SECONDS: Final = 1.0
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
    loop = asyncio.get_running_loop()
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
            driver_class=TerminalDriver,
        )
        hosting.app = app
        looking = loop.create_task(_look_after(app))
        # Until the client is closed: a window that closes sends its signal more than once.
        for number in _ENDING:
            loop.add_signal_handler(number, _end, app, 128 + number)
        try:
            with guard.kept_title():
                code = await app.run_async(mouse=settings.mouse)
        finally:
            looking.cancel()
            await hosting.end()
        return app.return_code or code or 0
    finally:
        async with _saying("stopping the engine"):
            await client.close()
        for number in _ENDING:
            loop.remove_signal_handler(number)


def _end(app: WorkbenchApp, code: int) -> None:
    """End with ``code``, unless there is a reason already."""
    if not app.ending:
        app.exit(code)


async def _look_after(app: WorkbenchApp) -> None:
    """End the application once its terminal is gone, also where no signal says so."""
    terminal = sys.__stdin__.fileno() if sys.__stdin__ is not None else -1
    if not os.isatty(terminal):
        return
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        if not os.isatty(terminal):
            _end(app, 128 + signal.SIGHUP)
            return


class _Hosting:
    """Hosts the engine once there is something to see, so that the first paint does not wait for it.

    A workspace that cannot be hosted ends the application, and ``end`` raises why.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._task: asyncio.Task[bool] | None = None
        self._ended_it = False
        self.app: WorkbenchApp | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._client.start_hosting())
        self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[bool]) -> None:
        assert self.app is not None
        failed = task.cancelled() or task.exception() is not None
        if self.app.ending:
            return
        if failed:
            self._ended_it = True
            self.app.exit(1)
        else:
            self.app.hosting_changed()

    async def end(self) -> None:
        """Wait until opening has come to its end. Raises what it raised where that ended the application."""
        if self._task is None:
            return
        try:
            await self._task
        except Exception as error:
            if self._ended_it:
                raise
            _LOG.warning("the engine was not hosted before the application ended", exc_info=error)


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
