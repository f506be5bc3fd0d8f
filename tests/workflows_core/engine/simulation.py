"""A seeded world in which everything may go wrong, and the audit of what must hold all the same.

One seed is one sequence of launches, commands, crashes, orderly shutdowns, refused writes, dead workers and
clock jumps over one store, with Agents that succeed, fail, ask a human, answer late or get lost. Afterwards the
chaos stops and each run is brought to a final state by commands alone. The audit reads the database itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from extension_api import ExtensionData, ExtensionRuntimeDeps
from extension_api.agent_runs import AgentRunRequest, AgentRunView
from workflows_core.engine.reconciliation import ReconcileRequest
from workflows_core.engine.service import WorkflowService
from workflows_core.engine.waits import DecideRequest
from workflows_core.errors import StoreFailed, WorkflowError
from workflows_core.journal.frames import verify_chain
from workflows_core.limits import engine_config
from workflows_core.model import TRANSITIONS, Decision, RunState, RunView, StepStatus
from workflows_core.store import rows
from workflows_core.store.base import Batch

from .fakes import Crash, CrashingStore, Fails, FakeRuns, NeedsInput, crash, request
from .virtual import Clock, SteppedWorker, virtual_world

A = "agent({stepId: '%s', agentRef: 'lead_agent', task: %s})"
SCRIPTS = (
    f"const a = await {A % ('a', '1')};\nconst b = await {A % ('b', 'a.output')};\nreturn [a.output, b.output];",
    f"const r = await parallel([() => {A % ('a', '1')}, () => {A % ('b', '2')}, () => {A % ('c', '3')}]);\n"
    "log('all');\nreturn r.map(x => x.output);",
    f"let v = 1;\ntry {{ v = (await {A % ('a', '1')}).output; }} catch (e) {{ v = e.code; }}\n"
    f"await pause({{stepId: 'p'}});\nreturn [v, (await {A % ('b', '2')}).output];",
    f"const a = await {A % ('a', '1')};\n"
    "await humanCheckpoint({stepId: 'ok', sourceStepId: 'a', artifactVersion: a.artifactVersion});\n"
    f"return (await {A % ('b', '2')}).output;",
    f"const a = await {A % ('a', '1')};\n"
    "const c = await captureArtifact({stepId: 'c', sourceStepId: 'a', path: 'f'});\n"
    "await humanCheckpoint({stepId: 'ok', sourceStepId: 'c', artifactVersion: c.artifactVersion});\n"
    "const b = await agent({stepId: 'b', agentRef: 'lead_agent', task: 2, artifacts: [c.artifactVersion]});\n"
    "return [b.output, (await readArtifact({artifactVersion: c.artifactVersion, offset: 0})).data];",
)

#: Virtual seconds within which a world must have come to its end.
LIFE_SECONDS = 3_600

#: The moves that the table admits, between any two stored states of a run.
MOVES = {(source, target) for row in TRANSITIONS.values() for source, target in row.items()}


class UnsteadyStore(CrashingStore):
    """Refuses writes while ``refusing`` is positive, one less each time; audits every change of state."""

    refusing = 0

    def commit(self, run_id: str, batch: Batch) -> None:
        if self.refusing > 0:
            self.refusing -= 1
            raise StoreFailed("the disk is full")
        if batch.record is not None:
            before = self.load(run_id)
            assert before is not None
            move = (before.state, batch.record.state)
            assert before.state is batch.record.state or move in MOVES, f"{run_id}: {move}"
        super().commit(run_id, batch)


class Agents(FakeRuns):
    """Agents at the end of a line that goes dead: a request whose answer nobody got may still arrive, later."""

    def __init__(self, world: World) -> None:
        super().__init__(world.answer, interactive=True)
        self._world = world
        self.on_the_way: list[asyncio.Task[Any]] = []

    async def admit(self, request: AgentRunRequest) -> AgentRunView:
        draw = self._world.random
        dead = not self._world.calm and draw.random() < 0.08
        try:
            if dead:
                raise ConnectionError("the line went dead before the answer")
            await asyncio.sleep(0 if self._world.calm else draw.choice((0, 0, 0.001, 0.02, 0.1)))
        except (ConnectionError, asyncio.CancelledError):
            if draw.random() < 0.7:
                self.on_the_way.append(asyncio.create_task(self._arrive(request, draw.choice((0, 0.01, 1)))))
            raise
        return await super().admit(request)

    async def _arrive(self, request: AgentRunRequest, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await super().admit(request)


class World:
    def __init__(self, seed: int, folder: Path, clock: Clock) -> None:
        self.random = random.Random(seed)
        self.path = folder / "w.sqlite"
        self.clock = clock
        self.calm = False
        self.runs = Agents(self)
        self.runs.files["f"] = (b"file", "text/plain")
        self.engine: WorkflowService | None = None
        self.stores: list[UnsteadyStore] = []
        self.launched: list[str] = []
        self.receipts: list[Decision] = []

    async def answer(self, runs: FakeRuns, req: Any) -> Any:
        await asyncio.sleep(0 if self.calm else self.random.choice((0, 0, 0.002, 0.01)))
        dice = 1.0 if self.calm else self.random.random()
        if dice < 0.08:
            raise Fails("no answer today")
        if dice < 0.12:
            raise NeedsInput("which one?")
        return {"of": req.metadata["step_id"]}

    # Moves of the world.

    async def start(self) -> WorkflowService:
        if self.engine is not None:
            return self.engine

        def opened(path: Path) -> UnsteadyStore:
            self.stores.append(UnsteadyStore(path))
            return self.stores[-1]

        engine = WorkflowService(
            engine_config({"storage_path": str(self.path), "max_workflows": 8, "max_workflows_per_owner": 4}),
            store=opened,
            inbox_seconds=60,
        )
        await engine.start(
            ExtensionRuntimeDeps(app_store=ExtensionData("app"), agent_runs_for=lambda _: self.runs)
        )
        self.engine = engine
        return engine

    async def crash(self) -> None:
        if self.engine is not None:
            engine, self.engine = self.engine, None
            await crash(engine)

    async def shut_down(self) -> None:
        if self.engine is not None:
            engine, self.engine = self.engine, None
            self.stores[-1].refusing = 0
            await engine.stop()

    async def launch(self) -> None:
        engine = await self.start()
        outcome = await engine.launch(request(self.random.choice(SCRIPTS)), self.runs)
        self.launched.append(outcome.run_id)

    async def command(self) -> None:
        engine = await self.start()
        if not self.launched:
            return
        run_id = self.random.choice(self.launched)
        view = await engine.inspect(run_id, self.runs)
        kind = self.random.choice(
            ("cancel", "resume", "approve", "approve", "reject", "recover", "recover", "settle")
        )
        await self._apply(engine, view, kind)

    async def _apply(self, engine: WorkflowService, view: RunView, kind: str) -> None:
        waits = [step for step in view.steps if step.status is StepStatus.WAITING and step.kind != "agent"]
        if kind == "cancel":
            await engine.cancel(view.run_id, self.runs)
        elif kind == "recover":
            await engine.recover(view.run_id, self.runs)
        elif kind == "resume" and waits:
            await engine.resume(view.run_id, waits[-1].step_id, 1, self.runs)
        elif kind in ("approve", "reject") and waits and waits[-1].artifact_version:
            asked = DecideRequest(
                run_id=view.run_id,
                step_id=waits[-1].step_id,
                attempt=1,
                decision=kind,
                sha256=waits[-1].artifact_version,
                reason="seen",
            )
            self.receipts.append(await engine.decide(asked, self.runs))
        elif kind == "settle":
            for step in [step for step in view.steps if step.unsettled][:1]:
                outcome = self.random.choice(("did_not_run", "failed", "succeeded"))
                success = outcome == "succeeded"
                await engine.reconcile(
                    ReconcileRequest(
                        run_id=view.run_id,
                        step_id=step.step_id,
                        outcome=outcome,
                        reason="looked",
                        output="attested" if success else None,
                        has_output=success,
                    ),
                    self.runs,
                )

    async def kill_worker(self) -> None:
        for supervisor in list(self.engine._supervisors.values()) if self.engine is not None else []:
            worker = supervisor._worker
            if isinstance(worker, SteppedWorker) and self.random.random() < 0.5:
                worker.perish()

    async def refuse_writes(self) -> None:
        if self.engine is not None:
            self.stores[-1].refusing = self.random.randint(1, 3)

    async def jump(self) -> None:
        self.clock.offset += self.random.choice((-3_600, -5, 5, 3_600)) * 1_000_000_000

    async def rest(self) -> None:
        await asyncio.sleep(self.random.choice((0, 0.001, 0.01, 0.03)))

    async def chaos(self, moves: int) -> None:
        """Do ``moves`` random moves. What a command refuses in words is fine; anything else is not."""
        table = (
            (self.launch, 3),
            (self.command, 6),
            (self.rest, 6),
            (self.crash, 2),
            (self.shut_down, 1),
            (self.kill_worker, 1),
            (self.refuse_writes, 1),
            (self.jump, 1),
        )
        kinds = [move for move, weight in table for _ in range(weight)]
        for _ in range(moves):
            try:
                await self.random.choice(kinds)()
            except (WorkflowError, Crash):
                pass

    async def ordered(self, moves: list[str]) -> None:
        """Do exactly these moves, by their names."""
        for name in moves:
            try:
                await getattr(self, name)()
            except (WorkflowError, Crash):
                pass

    # Afterwards.

    async def bring_to_an_end(self) -> None:
        """Every run can be brought to a final state by commands that a person has."""
        self.calm = True
        await self.shut_down()
        engine = await self.start()
        for _ in range(60):
            views = [await engine.inspect(run_id, self.runs) for run_id in self.launched]
            if all(view.state.final for view in views):
                return
            for view in views:
                await self._forward(engine, view)
            await asyncio.sleep(0.02)
        left = {view.run_id: (view.state.value, view.cause) for view in views if not view.state.final}
        raise AssertionError(f"runs that no command ends: {left}")

    async def _forward(self, engine: WorkflowService, view: RunView) -> None:
        kinds = {
            RunState.PAUSED: "resume",
            RunState.WAITING_APPROVAL: "approve",
            RunState.RECOVERABLE: "cancel" if view.cancel_requested else "recover",
            RunState.NEEDS_RECONCILIATION: "settle",
            RunState.WAITING_INPUT: "settle",
            RunState.INTERRUPTED: "cancel",
        }
        kind = kinds.get(view.state)
        if kind is None:
            return
        try:
            await self._apply(engine, view, kind)
        except WorkflowError:
            if view.state is RunState.RECOVERABLE:
                await engine.cancel(view.run_id, self.runs)

    async def close(self) -> None:
        await self.shut_down()
        tasks = [*self.runs.on_the_way, *self.runs.tasks.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def audit(self) -> Counter[str]:
        """What must hold in the database, read without the engine. Returns the states that were reached."""
        asked = Counter(item.idempotency_key for item in self.runs.admitted)
        assert all(count == 1 for count in asked.values()), f"asked twice: {asked}"
        connection = sqlite3.connect(self.path)
        try:
            states: Counter[str] = Counter()
            for run_id, state in connection.execute("SELECT run_id, state FROM runs").fetchall():
                states[state] += 1
                frames = [
                    rows.frame(row)
                    for row in connection.execute(
                        f"SELECT {rows.FRAME_COLUMNS} FROM frames WHERE run_id = ? ORDER BY number", (run_id,)
                    )
                ]
                verify_chain(frames)
                assert RunState(state).final, (run_id, state)
                assert frames[-1].kind == "end", (run_id, frames[-1].kind)
            attested = {row[0] for row in connection.execute("SELECT run_id FROM attestations")}
            for item in self.runs.admitted:
                view = self.runs.views[self.runs.by_key[item.idempotency_key]]
                run_id = item.metadata["workflow_run_id"]
                assert run_id in attested or not view.status.active, f"{run_id} ended, its child works on"
            kept = {
                (row[0], row[1]): (row[3], row[4])
                for row in connection.execute(f"SELECT {rows.DECISION_COLUMNS} FROM decisions")
            }
            for receipt in self.receipts:
                assert kept[receipt.run_id, receipt.step_id] == (receipt.decision, receipt.sha256)
            return states
        finally:
            connection.close()


MOVE_NAMES = ("launch", "command", "rest", "crash", "shut_down", "kill_worker", "refuse_writes", "jump")


class Past(NamedTuple):
    """What a seed came to: how often each state was reached, and the hash of everything that is stored."""

    states: Counter[str]
    digest: str


def contents(path: Path) -> str:
    """SHA-256 of every row of a store but the process ids in it."""
    found = hashlib.sha256()
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        for (table,) in tables.fetchall():
            cursor = connection.execute(f"SELECT * FROM {table}")
            names = [column[0] for column in cursor.description]
            for row in sorted(map(repr, cursor.fetchall())) if "pid" not in names else ():
                found.update(f"{table} {row}\n".encode())
    return found.hexdigest()


def ordered(moves: list[str], seed: int, folder: Path) -> Past:
    """Do the moves in this order, bring every run to an end, and audit."""

    async def play(world: World) -> None:
        await world.launch()
        await world.ordered(moves)

    return _play(seed, folder, play)


def simulate(seed: int, folder: Path, moves: int = 40) -> Past:
    """Run one seed to its end and audit it; the folder goes where everything holds."""
    return _play(seed, folder, lambda world: world.chaos(moves))


def _play(seed: int, folder: Path, play: Callable[[World], Awaitable[None]]) -> Past:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with virtual_world(seed) as (runner, clock):
            world = World(seed, folder, clock)
            runner.run(_to_the_end(world, play))
            past = Past(world.audit(), contents(world.path))
    except BaseException as error:
        error.add_note(f"seed {seed} reproduces it; its store is in {folder}")
        raise
    shutil.rmtree(folder)
    return past


async def _to_the_end(world: World, play: Callable[[World], Awaitable[None]]) -> None:
    try:
        async with asyncio.timeout(LIFE_SECONDS):
            await play(world)
            world.clock.offset = 0
            await world.bring_to_an_end()
            await asyncio.sleep(2)  # what is on its way to an Agent arrives
    finally:
        await world.close()
