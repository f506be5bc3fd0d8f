"""Drives a real worker through a script, answering its calls, and tells what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from workflows_core.jsontext import encode
from workflows_core.limits import Limits
from workflows_core.worker.process import EndFrame, Turn, Worker, WorkerDied

Answer = Callable[[dict[str, Any]], Any]


@dataclass
class Outcome:
    turns: list[Turn] = field(default_factory=list)
    died: WorkerDied | None = None

    @property
    def end(self) -> EndFrame | None:
        return self.turns[-1].end if self.turns else None

    @property
    def value(self) -> Any:
        assert self.end is not None and self.end.ok, self
        return self.end.value

    @property
    def error(self) -> dict[str, str]:
        assert self.end is not None and self.end.error is not None, self
        return self.end.error

    @property
    def code(self) -> str:
        return self.error["code"]

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [call for turn in self.turns for frame in turn.requests for call in frame.calls]

    @property
    def logged(self) -> list[str]:
        return [call["message"] for call in self.calls if call["op"] == "log"]

    @property
    def positions(self) -> list[tuple[int, int] | None]:
        return [place for turn in self.turns for frame in turn.requests for place in frame.positions]


class Failed:
    """An answer that rejects the call."""

    def __init__(
        self, name: str = "AgentError", code: str = "agent_failed", message: str = "It failed."
    ) -> None:
        self.error = {"name": name, "code": code, "message": message}


def result(call_id: int, answer: Any) -> dict[str, Any]:
    if isinstance(answer, Failed):
        return {"id": call_id, "ok": False, "error": answer.error}
    return {"id": call_id, "ok": True, "value": answer}


def response(*results: dict[str, Any], more: bool = False) -> bytes:
    body: dict[str, Any] = {"results": list(results)}
    if more:
        body["more"] = True
    return encode(body)


def echo(call: dict[str, Any]) -> Any:
    """What an Agent that repeats its task would give."""
    return {
        "output": call.get("task"),
        "threadId": "t",
        "runId": "r",
        "status": "success",
        "artifactVersion": "v",
    }


async def start(
    script: str, args: Any = None, *, limits: Limits | None = None, replay: bool = False
) -> Worker:
    return await Worker.start(
        script=script,
        args=encode({} if args is None else args),
        limits=limits or Limits(),
        replay=replay,
    )


async def run(
    script: str,
    args: Any = None,
    *,
    answer: Answer = echo,
    limits: Limits | None = None,
    replay: bool = False,
    rounds: int = 50,
) -> Outcome:
    """Run ``script`` to its end, its death, or until it is stalled; every call is answered in the next turn."""
    outcome = Outcome()
    worker = await start(script, args, limits=limits, replay=replay)
    try:
        turn = await worker.first_turn()
        outcome.turns.append(turn)
        while turn.end is None and turn.outstanding and len(outcome.turns) < rounds:
            asked = [call for frame in turn.requests for call in frame.calls if "id" in call]
            turn = await worker.give([response(result(call["id"], answer(call))) for call in asked])
            outcome.turns.append(turn)
    except WorkerDied as died:
        outcome.died = died
    finally:
        await worker.close()
    return outcome
