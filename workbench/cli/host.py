"""What the Host screen shows, as lines and as JSON: ``host`` and ``notices``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .common import common, connected, err, find_workspace, out, print_json, run_async
from .exits import Exit

if TYPE_CHECKING:
    from workbench.hostview import HostView

    from .output import Output, Piece

SECTIONS: Final = ("agents", "limits", "stores", "events")


@click.command()
@click.argument("section", required=False, type=click.Choice(SECTIONS))
@common
def host(section: str | None, workspace: Path | None, as_json: bool) -> int:
    """Show agents, limits in use, stores, events.

    An agent is shown with the fingerprint of its latest assembly and what changed since the one before. SECTION
    leaves the others out. Extensions and sessions have commands of their own: extension list, sessions.
    """
    space = find_workspace(workspace)

    async def read() -> HostView:
        from workbench.hostview import HostReader

        async with connected(space, "never") as client:
            return await HostReader(client, space).read(await client.runs(None), ask=False)

    view = run_async(read)
    wanted = SECTIONS if section is None else (section,)
    problems = {name: problem for name, problem in view.problems.items() if name in wanted}
    if as_json:
        document: dict[str, Any] = {"owner_pid": view.owner_pid, "mode": view.mode}
        document |= {name: _RECORDS[name](view) for name in wanted}
        print_json({**document, "problems": problems})
        return Exit.DONE
    for name in wanted:
        if section is None:
            out().line((name.capitalize(), "title"))
        if name in problems:
            err().line((problems[name], "bad"))
        _SHOWN[name](view, out())
    return Exit.DONE


def _agents(view: HostView) -> list[dict[str, Any]]:
    from workflows_core.model import iso

    return [
        {
            "name": each.name,
            "backend": each.backend or None,
            "available": each.available,
            "allowed": each.allowed,
            "fingerprint": each.fingerprint or None,
            "comparison": each.comparison,
            "changes": [{"component": it[0], "what": it[1], "numbers": it[2]} for it in each.changes],
            "at": iso(each.at) if each.at else None,
            "run_id": each.workflow_run or None,
        }
        for each in view.agents
    ]


def _limits(view: HostView) -> list[dict[str, Any]]:
    return [asdict(each) for each in view.limits]


def _stores(view: HostView) -> list[dict[str, Any]]:
    return [
        {"name": each.name, "file": str(each.path), "bytes": each.size, "meaning": each.meaning}
        for each in view.stores
    ]


def _events(view: HostView) -> list[dict[str, Any]]:
    from workflows_core.model import iso

    return [
        {
            "at": iso(each.at),
            "agent": each.agent,
            "run_id": each.workflow_run or None,
            "step_id": each.step_id,
            "child_run_id": each.child_run_id,
            "thread_id": each.thread_id,
            "seq": each.seq,
            "badge": each.badge,
            "event_type": each.event_type,
            "category": each.category,
            "content": each.content,
        }
        for each in view.events
    ]


_RECORDS: Final = {"agents": _agents, "limits": _limits, "stores": _stores, "events": _events}


def _show_agents(view: HostView, output: Output) -> None:
    from workbench import words

    for each in view.agents:
        state = each.backend or "not configured"
        print_ = f"  {words.hash7(each.fingerprint)}" if each.fingerprint else ""
        output.line(each.name, "  ", state, print_, "  ", (each.told(view.at), "quiet"))
        for component, what, numbers in each.changes:
            output.line("  ", (f"{component} {what} {numbers}".rstrip(), "waiting"))


def _show_limits(view: HostView, output: Output) -> None:
    rows: list[list[Piece]] = []
    for each in view.limits:
        used = "" if each.used is None else f"{each.used:,} of "
        by = f" · by {each.by}" if each.by and each.used else ""
        full = each.used is not None and each.used >= each.value
        amount = f"{used}{each.value:,} {each.unit}"
        value: Piece = (amount, "bad") if full else amount
        rows.append([each.key, value, (f"{each.meaning}{by}", "quiet")])
    output.table(rows)


def _show_stores(view: HostView, output: Output) -> None:
    from workbench import words

    rows: list[list[Piece]] = [
        [each.name, "not made yet" if each.size is None else words.kib(each.size), str(each.path)]
        for each in view.stores
    ]
    output.table(rows, right=(1,))


def _show_events(view: HostView, output: Output) -> None:
    from workbench import words

    rows: list[list[Piece]] = [
        [
            words.ago(each.at, view.at),
            each.event_type,
            each.agent,
            each.step_id,
            (each.badge, "quiet"),
            (each.workflow_run, "quiet"),
        ]
        for each in view.events
    ]
    output.table(rows)


_SHOWN: Final = {
    "agents": _show_agents,
    "limits": _show_limits,
    "stores": _show_stores,
    "events": _show_events,
}


@click.command()
@common
def notices(workspace: Path | None, as_json: bool) -> int:
    """Read again what the application has said.

    These are the latest 200 notices that you were shown in passing in this workspace, the newest first, of earlier
    sessions too.
    """
    from workbench import words
    from workbench.noticebook import NoticeBook
    from workbench.settings import notices_path
    from workflows_core.model import iso, now

    book = NoticeBook(notices_path(find_workspace(workspace).root))
    book.load()
    found = list(reversed(book.all))
    if as_json:
        print_json({"notices": [{**asdict(each), "at": iso(each.at)} for each in found]})
        return Exit.DONE
    if not found:
        err().line("Nothing was reported yet.")
    tones = {"error": "bad", "warning": "waiting", "information": "title"}
    for each in found:
        out().line((each.title or each.severity, tones[each.severity]), f"  {words.ago(each.at, now())}")
        out().text(each.message, "  ")
    return Exit.DONE
