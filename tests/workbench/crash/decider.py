"""People at a terminal who decide the same checkpoint at the same moment, some this way and some that way.

Run with a terminal as its controlling terminal: ``main(["COUNT"])`` in the folder of a workspace. Each line of input
names a run, a step and the hash of what was shown; the answer is one JSON line with how many receipts and how many
conflicts there were. An empty line ends it.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter

from workbench.client import Client
from workbench.workspace import Workspace
from workflows_core.engine.waits import DecideRequest
from workflows_core.errors import Conflict


async def decide(count: int) -> None:
    client = await Client.open(Workspace.find(), host="never")
    try:
        print("seated", flush=True)
        while line := (await asyncio.to_thread(input)).strip():
            print(json.dumps(await one_round(client, count, *line.split())), flush=True)
    finally:
        await client.close()


async def one_round(client: Client, count: int, run_id: str, step_id: str, sha256: str) -> dict[str, int]:
    def asked(number: int) -> DecideRequest:
        decision = "approve" if number % 2 else "reject"
        return DecideRequest(
            run_id=run_id, step_id=step_id, attempt=1, decision=decision, sha256=sha256, reason="seen"
        )

    ended = await asyncio.gather(
        *(client.decide(asked(number)) for number in range(count)), return_exceptions=True
    )
    found: Counter[str] = Counter()
    for outcome in ended:
        if isinstance(outcome, BaseException) and not isinstance(outcome, Conflict):
            raise outcome
        found["conflict" if isinstance(outcome, Conflict) else outcome.decision] += 1
    return found


def main(arguments: list[str]) -> None:
    asyncio.run(decide(int(arguments[0])))
