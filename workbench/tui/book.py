"""All runs of the workspace as the screens list them, read once and then kept up to date run by run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from workflows_core.errors import Deleted, NotFound, StoreError, WorkflowError
from workflows_core.model import RunState, RunSummary, StepView

from ..review import Waiting, inbox, unsettled

if TYPE_CHECKING:
    from ..client import Client
    from ..review_questions import Question

#: More changed runs than this are read all at once.
MANY: Final = 50


class RunBook:
    """``newest`` is every run, the newest first; ``waiting`` what waits for a person, the oldest first.

    Readers must not change them.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._runs: dict[str, RunSummary] = {}
        self._newest: Sequence[RunSummary] = ()
        self._waiting: Sequence[Waiting] = ()
        self._questions: Sequence[Question] = ()
        self._unsettled: dict[str, tuple[int, Sequence[StepView]]] = {}
        self._counts: Counter[RunState] = Counter()
        self.loaded = False

    @property
    def newest(self) -> Sequence[RunSummary]:
        return self._newest

    @property
    def waiting(self) -> Sequence[Waiting]:
        return self._waiting

    def get(self, run_id: str) -> RunSummary | None:
        return self._runs.get(run_id)

    def count(self, *states: RunState) -> int:
        """How many runs are in one of ``states``."""
        return sum(self._counts[state] for state in states)

    async def load(self) -> None:
        """Read every run. Raises what ``Client.runs`` raises."""
        self._runs = {run.run_id: run for run in await self._client.runs(None)}
        self.loaded = True
        await self._arrange()

    async def update(self, run_ids: Iterable[str]) -> None:
        """Read these runs again; those that are gone leave the book."""
        wanted = tuple(run_ids)
        if len(wanted) > MANY:
            await self.load()
            return
        for run_id in wanted:
            try:
                self._runs[run_id] = await self._client.summary(run_id)
            except (NotFound, Deleted):
                self._runs.pop(run_id, None)
        if wanted:
            await self._arrange()

    async def _arrange(self) -> None:
        self._newest = sorted(self._runs.values(), key=lambda run: run.created_at, reverse=True)
        self._counts = Counter(run.state for run in self._newest)
        await self._read_questions()
        await self._read_unsettled()
        self._waiting = inbox(
            self._newest, self._questions, {run_id: steps for run_id, (_, steps) in self._unsettled.items()}
        )

    async def _read_unsettled(self) -> None:
        """The steps whose outcome somebody must say; a run that has not changed is not read again."""
        known, self._unsettled = self._unsettled, {}
        for run in self._newest if self._counts[RunState.NEEDS_RECONCILIATION] else ():
            if run.state is not RunState.NEEDS_RECONCILIATION:
                continue
            if run.run_id in known and known[run.run_id][0] == run.revision:
                self._unsettled[run.run_id] = known[run.run_id]
                continue
            try:
                steps = unsettled(await self._client.view(run.run_id))
            except WorkflowError:
                continue  # It is listed as a run all the same.
            self._unsettled[run.run_id] = run.revision, steps

    async def _read_questions(self) -> None:
        """What manual agents are asked, read behind the runs: only a running one can ask anything."""
        if not self._counts[RunState.RUNNING]:
            self._questions = ()
            return
        try:
            self._questions = await self._client.questions()
        except StoreError:
            pass  # The runs are listed all the same, with the questions that are known; Host shows what the store has.
