"""When an application has nothing left to do, so that it looks the same each time.

A pilot's pause ends when the process uses little processor time, which on a loaded machine says nothing. Here what
is left to do is asked of those who have it: the event loop, the widgets' queues, the screen, timers and workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from typing import Any

from textual.app import App
from textual.screen import Screen

#: Seconds after which an application that does not come to rest fails the test.
PATIENCE_SECONDS = 60.0
#: A timer that fires once within this many seconds is waited for.
SOON_SECONDS = 0.15
#: Groups of workers that end by themselves; a dialog's worker waits for a person.
READING = ("runs", "run", "refresh")
#: Groups of workers that end with something outside.
_OUTSIDE = ("viewer",)


async def at_rest(app: App[Any], groups: Collection[str] | None = READING) -> None:
    """Wait until nothing is left to do, workers of ``groups`` included.

    None: those of every group, but for as many as there are dialogs that somebody waits for.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE_SECONDS
    still = 0
    while still < 3:
        await asyncio.sleep(0.001)
        left = what_is_left(app, groups)
        still = 0 if left else still + 1
        assert loop.time() < end, f"it does not come to rest: {left}"


def what_is_left(app: App[Any], groups: Collection[str] | None = READING) -> str:
    """Something that is still to be done, in words; empty where the application rests."""
    loop: Any = asyncio.get_running_loop()
    if loop._ready:
        return "callbacks of the loop"
    changes = getattr(getattr(app, "context", None), "changes", None)
    if changes is not None and changes.pending:
        return "changes of runs"
    for node in _nodes(app):
        if not node._message_queue.empty() or node._pending_message is not None or node._next_callbacks:
            return f"messages to {node}"
        for timer in node._timers:
            once = timer._repeat is not None and timer._interval <= SOON_SECONDS
            if once and timer._task is not None and not timer._task.done() and timer._active.is_set():
                return f"the timer {timer.name} of {node}"
    screen: Any = app.screen
    if screen._dirty_widgets or screen._layout_required or screen._repaint_required or screen._callbacks:
        return f"drawing {screen}"
    animator: Any = app.animator
    if animator._animations or animator._scheduled:
        return "an animation"
    return _working(app, groups)


def _working(app: App[Any], groups: Collection[str] | None) -> str:
    unfinished = [worker for worker in app.workers if not worker.is_finished]
    if groups is not None:
        working = [worker.group for worker in unfinished if worker.group in groups]
        return f"workers: {working}" if working else ""
    working = [worker.group for worker in unfinished if worker.group not in _OUTSIDE]
    asking = sum(
        any(
            callback.future is not None and not callback.future.done()
            for callback in screen._result_callbacks
        )
        for screen in _screens(app)
    )
    return f"workers: {working}" if len(working) > asking else ""


def _screens(app: App[Any]) -> Iterator[Screen[Any]]:
    for stack in app._screen_stacks.values():
        yield from stack


def _nodes(app: App[Any]) -> Iterator[Any]:
    yield app
    for screen in _screens(app):
        yield from screen.walk_children(with_self=True)
