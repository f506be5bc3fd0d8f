"""Moves through a run, one after another: which are still wanted, which lasts too long, and what they came to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from textual.worker import Worker

from workflows_core.errors import UsageError
from workflows_core.journal.debugger import Debugger

from ...replaying import Opened
from ...travelling import Act, Seen, Traveller

if TYPE_CHECKING:
    from .base import WorkbenchScreen

#: Seconds after which a move that nobody waits for any more is given up.
STALE: Final = 0.25


class Mover:
    """Runs the moves of one screen in its workers. ``arrived`` is told what the last wanted one came to.

    Its second argument says whether the cursor of the frames is to stay where it is.
    """

    def __init__(self, screen: WorkbenchScreen, arrived: Callable[[Seen, bool], None]) -> None:
        self._screen = screen
        self._arrived = arrived
        self._wanted: list[tuple[Act, bool, bool]] = []
        self._worker: Worker[None] | None = None
        self.moving = False
        self.traveller: Traveller | None = None

    async def begin(self, opened: Opened) -> None:
        """Go through ``opened`` from now on."""
        await self.close()
        self.traveller = Traveller(opened)

    def move(self, act: Act, *, fresh: bool = False, stays: bool = False) -> None:
        """Do ``act`` after what is under way. A ``fresh`` one makes what was wanted before it needless.

        With ``fresh`` or ``stays`` the cursor of the frames stays where it is.
        """
        if fresh:
            self._wanted.clear()
        self._wanted.append((act, fresh, fresh or stays))
        if not self.moving:
            self.moving = True
            self._start()
        elif fresh:
            self._screen.set_timer(STALE, self._give_up)

    def _start(self) -> None:
        self._worker = self._screen.run_worker(self._moves(), group="run", exit_on_error=False)

    def _give_up(self) -> None:
        """End a move that lasts although another place is wanted."""
        if self.moving and self._wanted and self._wanted[0][1] and self._worker is not None:
            self._worker.cancel()
            self._start()

    async def _moves(self) -> None:
        traveller = self.traveller
        try:
            while self._wanted and traveller is not None:
                act, _, stays = self._wanted.pop(0)
                try:
                    async with self._screen.busy("running to that place"):
                        seen = await traveller.move(act)
                except UsageError as error:
                    self._screen.workbench.failure(error)
                    continue
                if not self._wanted and traveller is self.traveller:
                    self._arrived(seen, stays)
        except asyncio.CancelledError:
            raise  # whoever cancelled it has another one run, or none
        except BaseException:
            self.moving = False
            raise
        else:
            self.moving = False

    async def close(self) -> None:
        """Want nothing any more and end the worker process; a later move begins where this one stood."""
        self._wanted.clear()
        if self.moving and self._worker is not None:
            self._worker.cancel()
            self.moving = False
        if self.traveller is not None:
            await self.traveller.close()


async def to_the_end(debugger: Debugger) -> None:
    """Where the script waits for what the journal does not hold."""
    if debugger.level == "statements":
        await debugger.go_to_statement(debugger.statements + 1)
    else:
        await debugger.go_to_frame(len(debugger.frames) - 1)


async def stay(debugger: Debugger) -> None:
    """Look again where one stands."""


async def afresh(debugger: Debugger) -> None:
    """Look again where one stands, without what expressions may have changed there."""
    await debugger.afresh()
