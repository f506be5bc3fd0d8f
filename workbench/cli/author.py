"""Writing scripts: ``new`` and ``check``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from .common import common, connected, engine_settings, err, find_workspace, out, print_json, run_async
from .exits import Exit

if TYPE_CHECKING:
    from workbench.workspace import Workspace
    from workflows_core.model import RunSummary
    from workflows_core.script.check import Problem

    from .output import Output


@click.command()
@click.argument("name", required=False, default="first")
@common
def new(name: str, workspace: Path | None, as_json: bool) -> int:
    """Write a first script and its stub set.

    They are called NAME.workflow.js and NAME.stubs.yaml ("first" without a NAME), lie in the current folder
    or in the folder of --workspace, and never replace a file that is there.
    """
    from workbench.scripts import write_starter

    script, stubs = write_starter(workspace or Path(), name)
    if as_json:
        print_json({"script": str(script), "stubs": str(stubs)})
        return Exit.DONE
    output = out()
    output.table(
        [[str(script), ("calls an Agent twice", "quiet")], [str(stubs), ("answers on stubs", "quiet")]]
    )
    output.line(("Next: ", "quiet"), f"workbench run {script}")
    return Exit.DONE


@click.command()
@click.argument("script", type=click.Path(path_type=Path))
@click.option("--fix", is_flag=True, help="Apply every fix first, and write the script.")
@click.option(
    "--forecast",
    type=click.Choice(["stub", "real"]),
    help="Say too what a launch on stubs, or on real Agents, would be: calls at most, time, runs that may be active.",
)
@common
def check(script: Path, fix: bool, forecast: str | None, workspace: Path | None, as_json: bool) -> int:
    """Check a script without running it.

    Reports every problem with its position, its rule and, where there is a safe one, a fix. Ends with 1 when
    there are errors; warnings alone end with 0.
    """
    from workbench.scripts import read_script

    space = find_workspace(workspace)
    problems = _fixed(space, script) if fix else find_problems(space, read_script(script))
    # A script with errors is not launched, so there is nothing to foretell.
    tells = forecast is not None and not has_errors(problems)
    told = _forecast(space, script, real=forecast == "real") if tells else None
    if as_json:
        from workbench.document import problems_document

        document = problems_document(problems)
        if forecast is not None:
            document["forecast"] = None if told is None else told.document
        print_json(document)
    else:
        output = out()
        print_problems(output, problems, str(script))
        output.line(summary(problems, str(script)))
        for line in () if told is None else told.lines:
            output.text(line if output.unicode else line.replace("·", "-"))
    return Exit.FAILED if has_errors(problems) else Exit.DONE


class _Foretold(NamedTuple):
    """What is known before a launch, as a document and in lines."""

    document: dict[str, Any]
    lines: list[str]


def _forecast(space: Workspace, script: Path, *, real: bool) -> _Foretold:
    """What a launch of the script would be, as far as that is known before it."""
    from workbench.forecast import Subject, calls_at_most, expected, foretold, own_names, places, quota
    from workbench.real_launch import bound_in_words, real_bound
    from workbench.scripts import read_script, script_name
    from workflows_core.errors import ScriptRefused
    from workflows_core.script.check import calls_bound

    if real:
        space.options(real=True)
    subject = Subject(script_name(script), read_script(script), real)
    engine = engine_settings(space)
    ceiling = engine.limits.max_calls

    async def recorded() -> tuple[int | None, list[RunSummary]]:
        async with connected(space, "never") as client:
            runs = await client.runs(None)
            return await expected(client, runs, subject), runs

    took, runs = run_async(recorded)
    owners = own_names(space.config.auth.mode)
    active, most, _own = places(runs, engine.limits, owners)
    try:
        bound = calls_bound(subject.script)
    except (ScriptRefused, RecursionError):
        bound = (ceiling, True)
    calls = calls_at_most(bound, ceiling)
    lines = [foretold(bound, ceiling, took), quota(runs, engine.limits, owners)[0]]
    if real:
        lines.append(bound_in_words(space.config, engine.agents, calls))
    document = {
        "agents": "real" if real else "stub",
        "calls": calls,
        "limit": bound[1] or bound[0] > ceiling,
        "seconds": None if took is None else took / 1e6,
        "active": active,
        "most": most,
        "real": real_bound(space.config, engine.agents, calls) if real else None,
    }
    return _Foretold(document, lines)


def _fixed(workspace: Workspace, script: Path) -> list[Problem]:
    """Apply fixes, one after another, until none is left; write the script where it changed. The problems left.

    Raises UsageError, Conflict where another program changed the file meanwhile, StoreFailed.
    """
    from workbench.drafts import Draft
    from workflows_core.script.problem import apply_fix

    draft = Draft.open(script)
    done: list[str] = []
    problems = find_problems(workspace, draft.text)
    while (
        found := next((each for each in problems if each.fix is not None), None)
    ) and found.fix is not None:
        text = apply_fix(draft.text, found.fix)
        left = find_problems(workspace, text)
        if text == draft.text or len(left) >= len(problems):
            break  # it does not make things better: what it is about is left to the person
        done.append(f"{script}:{found.line}:{found.column}  {found.fix.title}")
        draft.text, problems = text, left
    if draft.dirty:
        draft.save()
    for line in done:
        err().line(("fixed ", "good"), line)
    return problems


def find_problems(workspace: Workspace, script: str, args: Any = None) -> list[Problem]:
    """All problems of a script, given which Agents this workspace allows and how many calls."""
    engine = engine_settings(workspace)
    from workflows_core.script.blocking import check_blocking

    return check_blocking(script, agents=engine.agents, max_calls=engine.limits.max_calls, args=args)


def has_errors(problems: list[Problem]) -> bool:
    return any(problem.severity == "error" for problem in problems)


def summary(problems: list[Problem], script: str) -> str:
    errors = sum(problem.severity == "error" for problem in problems)
    warnings = len(problems) - errors
    if not problems:
        return f"{script}: no problems"
    from workbench.words import count

    parts = [count(errors, "error")] if errors else []
    parts += [count(warnings, "warning")] if warnings else []
    return f"{script}: {', '.join(parts)}"


def print_problems(output: Output, found: Sequence[Problem], file: str) -> None:
    """One line a problem: place, severity, sentence, rule; and below it the fix where there is one."""
    for problem in found:
        tone = "bad" if problem.severity == "error" else "waiting"
        place = f"{file}:{problem.line}:{problem.column}"
        output.line(
            place, "  ", (problem.severity, tone), "  ", problem.message, "  ", (problem.rule, "quiet")
        )
        if problem.fix is not None:
            output.line(("    fix: " + problem.fix.title, "quiet"))


def show_before_launch(problems: list[Problem], script: str) -> None:
    """Say on standard error what a check before a launch has found."""
    if problems:
        output = err()
        print_problems(output, problems, script)
        if has_errors(problems):
            output.line(("Not launched: ", "bad"), summary(problems, script))
