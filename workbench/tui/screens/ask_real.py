"""What is asked before real Agents are called, wherever a run is launched from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from ...inert import inert
from ...real_launch import bound_in_words
from .dialogs import Answer, Dialog

if TYPE_CHECKING:
    from ...host.config import WorkbenchConfig

#: What is added where recorded answers are used again.
RECORDED: Final = "What asks exactly what was recorded is answered as recorded and calls nobody."


async def ask_real(
    ask: Callable[[Dialog], Awaitable[str | None]],
    name: str,
    config: WorkbenchConfig,
    agents: Sequence[str],
    calls: int,
    also: str = "",
) -> bool:
    """Ask before real Agents are called, with the bound on calls and what is known of their cost.

    ``name`` is the run's, ``agents`` those that it may call, ``calls`` how often at most; ``also`` a sentence more.
    """
    parts = (
        bound_in_words(config, agents, calls),
        also,
        "What an Agent does outside this workspace cannot be undone.",
    )
    text = f"{inert(name) or 'unnamed'}\n\n{' '.join(part for part in parts if part)}"
    answers = [Answer("keep", "Do not launch"), Answer("launch", "Launch", danger=True)]
    return await ask(Dialog("Launch on real Agents?", text, answers)) == "launch"
