"""The host's own commands as data, for a front end in this process and for the control inbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from extension_api.agent_runs import AgentRuns
from workflows_core.errors import NotPermitted, UsageError

from .extensions import Extensions


async def control(
    extensions: Extensions, mode: str, kind: str, body: Mapping[str, Any], session: AgentRuns
) -> dict[str, Any]:
    """Apply one command (see ``LocalHost.control``). ``mode`` is that of authentication.

    Raises NotPermitted where accounts are used and this one is no administrator's.
    """
    if kind == "host.extensions":
        return extensions.describe()
    use = body.get("use")
    if kind not in ("host.plan_reload", "host.reload"):
        raise UsageError(f"the owner does not know the control {kind[:40]}; it may be an older version")
    if use is not None and not isinstance(use, str):
        raise UsageError("the command is malformed: use must be text or null")
    if kind == "host.plan_reload":
        return asdict(extensions.plan(use))
    if mode == "password" and not session.principal.is_admin:
        raise NotPermitted(f"{session.principal.user_id} is no administrator, so it cannot reload extensions")
    return asdict(await extensions.reload(use))
