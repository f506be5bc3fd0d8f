"""How the driver calls hooks: bounded, contained, and reported."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from .registry import Diagnostic, Registered

_GRACE_SECONDS = 0.1


class Notifier:
    """Calls contributors one after the other; what goes wrong becomes a diagnostic.

    Detached notifications run off the caller's path; ``drain`` waits for them, and ``suspend`` drops later
    ones, as a host does while it shuts down.
    """

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        self._diagnostics = diagnostics
        self._detached: set[asyncio.Task[None]] = set()
        self._suspended = False

    async def batch(
        self, contributors: Sequence[Registered[Any]], hook: str, *args: object, budget: float | None = None
    ) -> None:
        """Call ``hook`` of each contributor, all within ``budget`` seconds; None is no budget."""
        clock = asyncio.get_running_loop().time
        deadline = None if budget is None else clock() + budget
        for contributor in contributors:
            left = None if deadline is None else deadline - clock()
            if left is not None and left <= 0:
                self.warn(contributor.use, f"{hook} was skipped: the budget of {budget} s is spent")
                continue
            await self.call(contributor, hook, *args, seconds=left)

    async def call(
        self, contributor: Registered[Any], hook: str, *args: object, seconds: float | None = None
    ) -> None:
        """Call one hook. A deadline is a warning; whatever the hook raises is an error; neither passes on.

        Cancelling the caller cancels the hook and passes on.
        """

        async def contained() -> BaseException | None:
            try:
                call: Callable[..., Awaitable[object]] = getattr(contributor.value, hook)
                await call(*args)
            except BaseException as error:  # noqa: BLE001 - judged below
                return error
            return None

        task = asyncio.create_task(contained())
        try:
            await asyncio.wait({task}, timeout=seconds)
        except asyncio.CancelledError:
            await _abandon(task)
            raise
        if not task.done():
            await _abandon(task)
            self.warn(contributor.use, f"{hook} did not return within its budget")
            return
        error = task.result()
        if isinstance(error, KeyboardInterrupt):
            raise error
        if error is not None:
            self.fail(contributor.use, hook, error)

    def detach(self, contributors: Sequence[Registered[Any]], hook: str, *args: object) -> None:
        """Call ``hook`` of each contributor without waiting for it."""
        if self._suspended or not contributors:
            return
        task = asyncio.create_task(self.batch(contributors, hook, *args))
        self._detached.add(task)
        task.add_done_callback(self._detached.discard)

    async def drain(self, seconds: float | None = None) -> None:
        """Wait until every detached notification was delivered; after ``seconds`` cancel the others."""
        clock = asyncio.get_running_loop().time
        deadline = None if seconds is None else clock() + seconds
        while self._detached:
            left = None if deadline is None else max(0.0, deadline - clock())
            done, waiting = await asyncio.wait(set(self._detached), timeout=left)
            if not done:
                for task in waiting:
                    task.cancel()
                await asyncio.wait(waiting, timeout=_GRACE_SECONDS)
                return

    def suspend(self) -> None:
        """Drop every detached notification from now on."""
        self._suspended = True

    def resume(self) -> None:
        """Deliver detached notifications again."""
        self._suspended = False

    def warn(self, source: str, message: str) -> None:
        """Report what a host logs as a warning."""
        self._diagnostics.append(Diagnostic("warning", source, message))

    def fail(self, source: str, hook: str, error: BaseException) -> None:
        """Report an exception that was contained."""
        kind = type(error).__name__
        try:
            message = f"{hook} raised {kind}: {error}"
        except Exception:  # noqa: BLE001 - an exception that cannot be shown is named by its type
            message = f"{hook} raised {kind}"
        self._diagnostics.append(Diagnostic("error", source, message))


async def _abandon(task: asyncio.Task[Any]) -> None:
    """Cancel a hook and give it a moment; one that resists is left behind."""
    task.cancel()
    await asyncio.wait({task}, timeout=_GRACE_SECONDS)
