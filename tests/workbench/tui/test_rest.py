"""Waiting for an application that still has something to do ends when it has done it, and not before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.screen import ModalScreen
from textual.widgets import Static

from tests.workbench.tui import rest
from tests.workbench.tui.rest import at_rest, what_is_left


class Busy(App[None]):
    """Shows ``done`` in the end, after whatever ``begin`` sets off."""

    def compose(self) -> ComposeResult:
        yield Static("busy", id="shown")

    def finish(self) -> None:
        self.query_one("#shown", Static).update("done")

    def done(self) -> bool:
        return str(self.query_one("#shown", Static).render()) == "done"


def a_timer(app: Busy) -> None:
    app.set_timer(0.05, app.finish)


def messages_one_behind_the_other(app: Busy) -> None:
    def pass_on(left: int) -> None:
        if left:
            app.query_one("#shown").call_later(pass_on, left - 1)
        else:
            app.call_after_refresh(app.finish)

    pass_on(20)


def a_worker(app: Busy) -> None:
    async def work() -> None:
        await asyncio.to_thread(asyncio.run, asyncio.sleep(0.05))
        app.finish()

    app.run_worker(work(), group="act")


@pytest.mark.parametrize("begin", [a_timer, messages_one_behind_the_other, a_worker])
async def test_what_was_set_off_is_waited_for(begin: Any) -> None:
    app = Busy()
    async with app.run_test() as pilot:
        await pilot.pause()
        begin(app)
        assert not app.done()
        await at_rest(app, None)
        assert app.done()
        assert what_is_left(app, None) == ""


async def test_a_dialog_that_somebody_waits_for_is_rest() -> None:
    app = Busy()

    async def ask() -> None:
        await app.push_screen_wait(ModalScreen[None]())

    async with app.run_test() as pilot:
        worker = app.run_worker(ask())
        await pilot.pause()
        await at_rest(app, None)
        assert not worker.is_finished
        app.screen.dismiss()
        await at_rest(app, None)
        assert worker.is_finished


async def test_what_never_rests_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "PATIENCE_SECONDS", 0.1)
    app = Busy()
    async with app.run_test() as pilot:
        await pilot.pause()
        app.run_worker(asyncio.Event().wait(), group="run")
        with pytest.raises(AssertionError, match=r"does not come to rest: workers: \['run'\]"):
            await at_rest(app)
