"""Extensions: ``extension list``, ``extension check``, ``extension reload``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .common import common, connected, err, find_workspace, interactive, out, print_json, run_async
from .exits import Exit

if TYPE_CHECKING:
    from workbench.host.config import PluginRecord
    from workbench.host.reloading import AffectedRun, ReloadPlan, ReloadResult
    from workbench.workspace import Workspace

_TONES: Final = {"error": "bad", "warning": "waiting", "info": "quiet"}
_MARKS: Final = {
    "loaded": ("✓", "+", "good"),
    "disabled": ("○", ".", "quiet"),
    "failed": ("✗", "x", "bad"),
}


@click.group()
def extension() -> None:
    """List, check and reload extensions."""


@extension.command("list")
@common
def list_(workspace: Path | None, as_json: bool) -> int:
    """List the extensions with what each contributed."""
    from workflows_core.store.lock import lock_path, owner_pid

    space = find_workspace(workspace)
    if owner_pid(lock_path(space.storage_path)) is not None:
        listed = run_async(lambda: _listed(space))
    else:
        from workbench.host.checking import list_extensions

        listed = list_extensions(space)
    running = listed["generation"] is not None
    if as_json:
        print_json({"running": running, **_with_times(listed)})
        return Exit.DONE
    for entry in listed["extensions"]:
        _show(entry)
    for older in listed["older"]:
        runs = ", ".join(older["runs"])
        out().line(("An older version of the extensions goes on for these runs: ", "waiting"), runs)
    if not running:
        err().line(("Nobody owns this workspace: they were loaded for this list and not started.", "quiet"))
    return Exit.DONE


@extension.command()
@click.argument("use")
@common
def check(use: str, workspace: Path | None, as_json: bool) -> int:
    """Load one extension by itself and report its problems.

    USE is module:attribute, or the name of a record of workbench.yaml.
    """
    from workbench.host.checking import check_extension

    space = find_workspace(workspace)
    report = check_extension(space, _record(space, use))
    errors = [problem for problem in report["problems"] if problem["severity"] == "error"]
    if as_json:
        print_json(report)
    else:
        for problem in report["problems"]:
            tone = _TONES[problem["severity"]]
            out().line(
                (problem["severity"], tone), "  ", problem["message"], (f"  {problem['rule']}", "quiet")
            )
        for line in _contributed(report):
            out().line(line)
        if not report["problems"]:
            out().line(("No problems.", "good"))
    return Exit.FAILED if errors else Exit.DONE


@extension.command()
@click.argument("use", required=False)
@click.option(
    "--preview", is_flag=True, help="Show what would be loaded and which runs it concerns; do nothing."
)
@click.option("--yes", is_flag=True, help="Do not ask, also where live runs are concerned.")
@common
def reload(use: str | None, preview: bool, yes: bool, workspace: Path | None, as_json: bool) -> int:
    """Load extensions anew in the running workbench.

    USE is module:attribute, or the name of a record of workbench.yaml. Live runs keep what they began with.
    """
    from workflows_core.errors import UsageError
    from workflows_core.store.lock import lock_path, owner_pid

    space = find_workspace(workspace)
    if owner_pid(lock_path(space.storage_path)) is None:
        raise UsageError(
            "no workbench owns this workspace, so nothing is loaded; extensions are loaded when one starts. "
            "To try one: workbench extension check USE",
            code="not_running",
        )
    plan, result = run_async(lambda: _reload(space, use, preview=preview, yes=yes, as_json=as_json))
    if as_json:
        print_json(_plan_document(plan) if result is None else _result_document(result))
    elif result is not None:
        _tell(result)
    elif not preview:
        err().line("Nothing was reloaded.")
    return Exit.FAILED if result is not None and result.failed else Exit.DONE


async def _listed(workspace: Workspace) -> dict[str, Any]:
    async with connected(workspace, "never") as client:
        return await client.extensions()


async def _reload(
    workspace: Workspace, use: str | None, *, preview: bool, yes: bool, as_json: bool
) -> tuple[ReloadPlan, ReloadResult | None]:
    async with connected(workspace, "never") as client:
        plan = await client.plan_reload(use)
        if not as_json:
            _tell_plan(plan)
        if preview or (plan.runs and interactive() and not yes and not _confirm(len(plan.runs))):
            return plan, None
        return plan, await client.reload(use)


def _confirm(number: int) -> bool:
    from workbench.words import count

    question = f"Reload? {count(number, 'run')} will go on with the old version"
    return click.confirm(question, err=True)


def _record(workspace: Workspace, use: str) -> PluginRecord:
    """The record of the file that ``use`` names, else one with nothing but it. Raises UsageError."""
    from msgspec.structs import replace

    from workbench.host.config import PluginRecord
    from workflows_core.errors import NotFound

    for record in workspace.config.plugins:
        if use in (record.use, record.name):
            return replace(record, enabled=True)
    module, colon, attribute = use.partition(":")
    if not colon or not all(part.isidentifier() for part in f"{module}.{attribute}".split(".")):
        raise NotFound(f"{use} is neither module:attribute nor the name of a record in workbench.yaml")
    return PluginRecord(name=use, use=use)


def _show(entry: dict[str, Any]) -> None:
    stream = out()
    glyph, plain, tone = _MARKS[entry["outcome"]]
    mark = f"{glyph if stream.unicode else plain} {entry['outcome']}"
    api = f"  contract {entry['api']}" if entry["api"] else ""
    stream.line((entry["name"], "title"), "  ", (mark, tone), (f"  {entry['use']}{api}", "quiet"))
    if entry["message"]:
        stream.line(("  " + entry["message"], "waiting" if entry["outcome"] == "loaded" else "bad"))
    for line in _contributed(entry):
        stream.line("  " + line)
    if entry["longest_hook_seconds"] is not None:
        stream.line((f"  longest hook {entry['longest_hook_seconds'] * 1000:.1f} ms of 3 s", "quiet"))
    for diagnostic in entry["diagnostics"]:
        if diagnostic["message"] != entry["message"]:
            stream.line("  ", (diagnostic["level"], _TONES[diagnostic["level"]]), "  ", diagnostic["message"])


def _contributed(entry: dict[str, Any]) -> list[str]:
    lines = []
    if entry["contributions"]:
        lines.append(", ".join(f"{method} {number}" for method, number in entry["contributions"].items()))
    for plugin in entry["plugins"]:
        parts = [f"plugin {plugin['namespace']}"]
        for what in ("actions", "tools"):
            if plugin[what]:
                parts.append(f"{what} {', '.join(plugin[what])}")
        lines.append(": ".join(parts[:1]) + ("; " + "; ".join(parts[1:]) if parts[1:] else ""))
    return lines


def _tell_plan(plan: ReloadPlan) -> None:
    stream = err()
    for run in plan.runs:
        note = f"; {run.note}" if run.note else ""
        stream.line((run.run_id, "quiet"), f"  {run.name} is {run.state}: it keeps the old version{note}")
    for note in plan.notes:
        stream.line(("note  ", "quiet"), note)
    stream.line(("to reload  ", "quiet"), ", ".join(plan.uses) or "nothing")


def _tell(result: ReloadResult) -> None:
    stream = out()
    for use in result.reloaded:
        stream.line(("reloaded", "good"), "  ", use)
    for failure in result.failed:
        stream.line(("failed", "bad"), "    ", failure.use, ": ", failure.message)


def _plan_document(plan: ReloadPlan) -> dict[str, Any]:
    return {"uses": list(plan.uses), "runs": _runs(plan.runs), "notes": list(plan.notes)}


def _result_document(result: ReloadResult) -> dict[str, Any]:
    return {
        "reloaded": list(result.reloaded),
        "failed": [{"use": failure.use, "message": failure.message} for failure in result.failed],
        "runs": _runs(result.runs),
        "notes": list(result.notes),
    }


def _runs(runs: tuple[AffectedRun, ...]) -> list[dict[str, Any]]:
    return [
        {"run_id": run.run_id, "name": run.name, "state": run.state, "note": run.note or None} for run in runs
    ]


def _with_times(listed: dict[str, Any]) -> dict[str, Any]:
    """The listing with its times in ISO 8601."""
    from workflows_core.model import iso

    for diagnostics in (listed["host"], *(entry["diagnostics"] for entry in listed["extensions"])):
        for diagnostic in diagnostics:
            diagnostic["at"] = iso(diagnostic["at"])
    return listed
