"""The colours of the application: which themes there are, the one that is asked for, and choosing another."""

from __future__ import annotations

import difflib
from functools import partial
from typing import TYPE_CHECKING

from .palette import Command, Palette

if TYPE_CHECKING:
    from .app import WorkbenchApp


def apply(app: WorkbenchApp, wanted: str) -> None:
    """Use the theme ``wanted``; where there is none of that name, say so and keep the default."""
    if wanted in app.available_themes:
        app.theme = wanted
        return
    near = difflib.get_close_matches(wanted, app.available_themes, n=3) or sorted(app.available_themes)
    app.notice(
        f"There is no theme {wanted!r}; themes are {', '.join(near)} and others. The default is used.",
        title="The theme is not known",
        severity="warning",
    )


async def ask(app: WorkbenchApp) -> None:
    """Let the person choose among all themes, until the end of the session."""
    themes = [
        Command(name, _remark(app, name), partial(setattr, app, "theme", name))
        for name in sorted(app.available_themes)
    ]
    chosen = await app.push_screen_wait(Palette(themes, "Themes", hint="type to search"))
    if chosen is not None:
        chosen.run()


def _remark(app: WorkbenchApp, name: str) -> str:
    own = "the terminal's own colours" if app.available_themes[name].ansi else ""
    return ", ".join(part for part in ("in use" if name == app.theme else "", own) if part)
