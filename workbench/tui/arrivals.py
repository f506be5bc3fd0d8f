"""Tells a person who looks elsewhere that something waits: the bell, a notice, and the terminal's title."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..review import Act, Waiting
from .guard import has_title

if TYPE_CHECKING:
    from .app import WorkbenchApp

#: What a new arrival is said to wait for.
_WAITS: Final = {
    Act.DECIDE: "waits for approval",
    Act.RESUME: "is paused",
    Act.ANSWER: "waits for input",
    Act.RECONCILE: "needs reconciliation",
}
#: More arrivals at once than this are only counted.
_NAMED: Final = 3


class Arrivals:
    """Give ``update`` all that waits after each change. What waits at the first call is no news."""

    def __init__(self, app: WorkbenchApp) -> None:
        self._app = app
        self._known: frozenset[str] | None = None
        self._title = ""

    def update(self, items: Sequence[Waiting]) -> None:
        new = [] if self._known is None else [item for item in items if item.id not in self._known]
        self._known = frozenset(item.id for item in items)
        self._set_title(len(items))
        if new:
            self._app.bell()
            key = self._app.key_label("app.review")
            self._app.notice(
                "\n".join([*_told(new), f"{key} opens Review."]), title="Something waits for you"
            )

    def _set_title(self, waiting: int) -> None:
        if not waiting and not self._title:
            return  # The title is the terminal's own until there is something to say.
        title = f"{waiting} waiting - workbench" if waiting else "workbench"
        if title != self._title:
            self._title = title
            self._write(f"\x1b]2;{title}\x07")

    def _write(self, sequence: str) -> None:
        driver = self._app._driver  # Textual has no call for the terminal's title.
        if driver is not None and not self._app.is_headless and has_title():
            driver.write(sequence)
            driver.flush()


def _told(new: list[Waiting]) -> list[str]:
    if len(new) > _NAMED:
        return [f"{len(new)} things began to wait."]
    return [
        f"{f'{item.step_id} of ' if item.step_id else ''}{item.name or item.run_id} {_waits(item)}."
        for item in new
    ]


def _waits(item: Waiting) -> str:
    return _WAITS[item.act] if item.child_run_id is None else "waits for your answer"
