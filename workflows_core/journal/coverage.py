"""Statement coverage over saved runs: which statements of a script ever began, and which never did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..errors import UsageError
from ..script.instrument import InstrumentRefused, instrument
from ..worker.probe import ProbedWorker
from ..worker.process import WorkerDied
from .bundle import Bundle
from .replay import response_batches
from .verify import read_start, verify


class StatementHits(msgspec.Struct, frozen=True):
    """A statement, its place, and how often it began over all runs."""

    line: int
    column: int
    end_line: int
    hits: int


class Coverage(msgspec.Struct, frozen=True):
    """One script over ``runs``. ``notes`` name runs that could not be counted whole."""

    script_hash: str
    script: str
    runs: tuple[str, ...]
    statements: tuple[StatementHits, ...]
    notes: tuple[str, ...]

    @property
    def covered(self) -> int:
        return sum(statement.hits > 0 for statement in self.statements)


async def coverage(bundles: Sequence[Bundle]) -> list[Coverage]:
    """The coverage of each script among ``bundles``, in the order of their first runs.

    Raises UsageError for a redacted run, one that does not replay, or a script that cannot be instrumented.
    """
    by_script: dict[str, list[Bundle]] = {}
    for bundle in bundles:
        by_script.setdefault(bundle.record.script_hash, []).append(bundle)
    return [await _one(runs) for runs in by_script.values()]


async def _one(runs: Sequence[Bundle]) -> Coverage:
    script = runs[0].script
    try:
        code = instrument(script)
    except InstrumentRefused as error:
        raise UsageError(f"the script of {runs[0].run_id} cannot be counted: {error}") from None
    total = [0] * len(code.sites)
    notes: list[str] = []
    for run in runs:
        if run.redacted:
            raise UsageError(f"{run.run_id} is redacted, so it cannot be run again")
        verdict = await verify(script, run.frames, expand=run.expand)
        if not verdict.holds:
            raise UsageError(
                f"{run.run_id} does not replay: it {verdict.verdict}. See: workbench replay {run.run_id}"
            )
        start = read_start(run.frames)
        worker = await ProbedWorker.open(
            script=code.script,
            probe=code.probe,
            sites=len(code.sites),
            args=start.args_json,
            limits=start.limits,
            batches=response_batches(run.frames, run.expand),
        )
        try:
            await worker.go(capture=False, count=True)
            total = [sum(pair) for pair in zip(total, await worker.hits(), strict=True)]
        except WorkerDied as death:
            notes.append(f"{run.run_id} was not counted: {death.message}")
        finally:
            await worker.close()
    hits = [
        StatementHits(site.line, site.column, site.end_line, count)
        for site, count in zip(code.sites, total, strict=True)
    ]
    hits.sort(key=lambda one: (one.line, one.column))
    return Coverage(
        runs[0].record.script_hash, script, tuple(run.run_id for run in runs), tuple(hits), tuple(notes)
    )


def coverage_document(found: Sequence[Coverage]) -> dict[str, Any]:
    """The JSON document of ``coverage``."""
    return {
        "scripts": [
            {
                "script_hash": one.script_hash,
                "runs": list(one.runs),
                "statements": len(one.statements),
                "covered": one.covered,
                "never": [
                    {"line": each.line, "column": each.column} for each in one.statements if each.hits == 0
                ],
                "hits": [
                    {"line": each.line, "column": each.column, "hits": each.hits} for each in one.statements
                ],
                "notes": list(one.notes),
            }
            for one in found
        ]
    }
