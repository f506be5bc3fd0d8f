"""Moves through a run, one after another: which are still wanted, which lasts too long, and what they came to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from textual.worker import Worker

from workflows_core.errors import UsageError
from workflows_core.journal.debugger import Debugger

from ...replaying import Opened
from ...travelling import Act, Seen, Traveller

if TYPE_CHECKING:
    from .base import WorkbenchScreen

#: Seconds after which a move that nobody waits for any more is given up.
STALE: Final = 0.25


class _Wanted(NamedTuple):
    """A move that is wanted. ``done`` is told once it was made, or why it cannot be made."""

    act: Act
    fresh: bool = False
    stays: bool = False
    done: asyncio.Future[None] | None = None


class Mover:
    """Runs the moves of one screen in its workers. ``arrived`` is told what the last wanted one came to.

    Its second argument says whether the cursor of the frames is to stay where it is.
    """

    def __init__(self, screen: WorkbenchScreen, arrived: Callable[[Seen, bool], None]) -> None:
        self._screen = screen
        self._arrived = arrived
        self._wanted: list[_Wanted] = []
        self._worker: Worker[None] | None = None
        self.moving = False
        self.traveller: Traveller | None = None

    def begin(self, opened: Opened) -> Traveller | None:
        """Go through ``opened`` from now on. Returns what went through the run before, which is to be closed."""
        before, self.traveller = self.traveller, Traveller(opened)
        self._stop()
        return before

    def move(self, act: Act, *, fresh: bool = False, stays: bool = False) -> None:
        """Do ``act`` after what is under way. A ``fresh`` one makes what was wanted before it needless.

        With ``fresh`` or ``stays`` the cursor of the frames stays where it is.
        """
        if fresh:
            self._forget()
        self._want(_Wanted(act, fresh, fresh or stays))

    async def moved(self, act: Act) -> None:
        """Do ``act`` after what is under way, and wait until that is shown.

        Raises UsageError, which is told nowhere else; CancelledError where it is not wanted any more.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._want(_Wanted(act, done=done))
        await done

    def _want(self, wanted: _Wanted) -> None:
        self._wanted.append(wanted)
        if not self.moving:
            self.moving = True
            self._start()
        elif wanted.fresh:
            self._screen.set_timer(STALE, self._give_up)

    def _forget(self) -> None:
        """Want nothing any more of what is not under way yet."""
        for wanted in self._wanted:
            if wanted.done is not None:
                wanted.done.cancel()
        self._wanted.clear()

    def _start(self) -> None:
        self._worker = self._screen.run_worker(self._moves, group="run", exit_on_error=False)

    def _give_up(self) -> None:
        """End a move that lasts although another place is wanted."""
        if self.moving and self._wanted and self._wanted[0].fresh and self._worker is not None:
            self._worker.cancel()
            self._start()

    async def _moves(self) -> None:
        traveller = self.traveller
        try:
            while self._wanted and traveller is not None:
                act, _, stays, done = self._wanted.pop(0)
                try:
                    async with self._screen.busy("running to that place"):
                        seen = await traveller.move(act)
                except UsageError as error:
                    if done is None:
                        self._screen.workbench.failure(error)
                    elif not done.done():
                        done.set_exception(error)
                    continue
                except BaseException:
                    if done is not None:
                        done.cancel()
                    raise
                if not self._wanted and traveller is self.traveller:
                    self._arrived(seen, stays)
                if done is not None and not done.done():
                    done.set_result(None)
        except asyncio.CancelledError:
            raise  # whoever cancelled it has another one run, or none
        except BaseException:
            self.moving = False
            raise
        else:
            self.moving = False

    def _stop(self) -> None:
        self._forget()
        if self.moving and self._worker is not None:
            self._worker.cancel()
            self.moving = False

    async def close(self) -> None:
        """Want nothing any more and end the worker process; a later move begins where this one stood."""
        self._stop()
        if self.traveller is not None:
            await self.traveller.close()


async def to_the_end(debugger: Debugger) -> None:
    """Where the script waits for what the journal does not hold."""
    await debugger.go_to_end()


async def stay(debugger: Debugger) -> None:
    """Look again where one stands."""


async def afresh(debugger: Debugger) -> None:
    """Look again where one stands, without what expressions may have changed there."""
    await debugger.afresh()
