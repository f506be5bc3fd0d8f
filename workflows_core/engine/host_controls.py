"""Commands about the host itself, which other processes post to the same inbox as those about runs.

The host puts one HostControls into the app store before services start. What it answers is its own affair: the
engine knows only that the kind of such a command starts with ``host.``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from extension_api.agent_runs import AgentRuns

PREFIX: Final = "host."


@dataclass(frozen=True)
class HostControls:
    """``apply(kind, body, session)`` returns a JSON object, or raises an error of the tree.

    ``only_look``: this owner is here to be asked. It applies no control, settles nothing that an earlier owner
    left, and leaves the store as it is.
    """

    apply: Callable[[str, Mapping[str, Any], AgentRuns], Awaitable[Mapping[str, Any]]]
    only_look: bool = False
