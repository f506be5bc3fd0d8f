"""Writing scripts: ``new`` and ``check``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import common, engine_settings, err, find_workspace, out, print_json
from .exits import Exit

if TYPE_CHECKING:
    from workbench.workspace import Workspace
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
@common
def check(script: Path, fix: bool, workspace: Path | None, as_json: bool) -> int:
    """Check a script without running it.

    Reports every problem with its position, its rule and, where there is a safe one, a fix. Ends with 1 when
    there are errors; warnings alone end with 0.
    """
    from workbench.scripts import read_script

    space = find_workspace(workspace)
    problems = _fixed(space, script) if fix else find_problems(space, read_script(script))
    if as_json:
        from workbench.document import problems_document

        print_json(problems_document(problems))
    else:
        output = out()
        print_problems(output, problems, str(script))
        output.line(summary(problems, str(script)))
    return Exit.FAILED if has_errors(problems) else Exit.DONE


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
