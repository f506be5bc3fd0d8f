"""The whole check of a script in the calling thread, for commands: no asyncio, and the engine works meanwhile."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .. import limits
from ..errors import ScriptRefused
from ..worker.compiling import Compiling

if TYPE_CHECKING:
    from ..worker.outcome import SyntaxProblem
    from .problem import Problem


def check_blocking(
    script: str, *, agents: Collection[str] | None, max_calls: int, args: Any | None = None
) -> list[Problem]:
    """What ``check_script`` finds; costs a worker process of a few milliseconds beside the reading."""
    with Compiling(script) as compiling:
        # Imported once the worker is on its way: the parser and the rules take as long to load as it does to start.
        from .source import prove_function_body, script_bytes

        with suppress(ScriptRefused):  # check_static says so
            if script_bytes(script) <= limits.SCRIPT_BYTES:
                prove_function_body(script)
                compiling.go()
        from ..worker.outcome import WorkerDied
        from .check import check_static, for_the_engine, with_verdict

        problems = check_static(script, agents=agents, max_calls=max_calls, args=args)
        if not for_the_engine(problems):
            return problems
        verdict: SyntaxProblem | ScriptRefused | WorkerDied | None
        try:
            verdict = compiling.verdict()
        except (ScriptRefused, WorkerDied) as error:
            verdict = error
        return with_verdict(script, problems, verdict)
