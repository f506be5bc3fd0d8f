"""The checks of a script: everything that can be said before it runs.

``check_static`` reads the script only. ``check_script`` also lets the engine compile it, in a worker process.
Both are total: any text gives a list of problems, never an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .. import jsontext, limits
from ..errors import ScriptRefused
from .analysis import Analysis
from .approvals import Approvals, Versions
from .constant import UNKNOWN
from .flow import Flow
from .graph_builder import FlowTooLarge
from .problem import RULES, Edit, Fix, Problem, RuleInfo, apply_fix
from .rules.calls import check_calls
from .rules.names import check_modules, check_names, check_regexes
from .rules.paths import check_approvals, check_paths, check_waits
from .rules.promises import check_promises
from .rules.steps import check_steps
from .source import parse, prove_function_body, script_bytes
from .steps import Completion, StepSite, api_completions, api_steps, calls_bound

if TYPE_CHECKING:
    from ..worker.outcome import SyntaxProblem, WorkerDied

__all__ = [
    "RULES",
    "Completion",
    "Edit",
    "Fix",
    "Problem",
    "RuleInfo",
    "StepSite",
    "api_completions",
    "api_steps",
    "apply_fix",
    "calls_bound",
    "check_script",
    "check_static",
    "for_the_engine",
    "with_verdict",
]

#: Problems of scripts that are not given to the engine.
_NOT_FOR_THE_ENGINE = frozenset({"not-text", "one-function-body", "script-too-large"})
#: Text longer than this is not analysed; its size is the problem.
_MOST_CHARACTERS = 4 * limits.SCRIPT_BYTES


def check_static(
    script: str, *, agents: Collection[str] | None, max_calls: int, args: Any | None = None
) -> list[Problem]:
    """The problems that reading alone finds, in the order of their places.

    ``agents`` are the names that agentRef may have (None: any). ``args`` is what the run would get, as JSON data
    (None: not known). A script that tree-sitter cannot read whole gets only the rules that look at one call at a
    time: what it reads wrongly must not become a warning.
    """
    problems: list[Problem] = []
    if args is not None:
        problems.extend(_arguments(args))
    problems.extend(_size(script))
    if len(script) > _MOST_CHARACTERS:
        return problems
    try:
        prove_function_body(script)
    except ScriptRefused as error:
        return _sorted([*problems, _refusal(error)])
    analysis = Analysis(script, UNKNOWN if args is None else args)
    _rules(analysis, agents, max_calls)
    return _sorted([*problems, *analysis.problems])


async def check_script(
    script: str, *, agents: Collection[str] | None, max_calls: int, args: Any | None = None
) -> list[Problem]:
    """``check_static`` and the engine's own compile; costs a worker process of a few milliseconds."""
    problems = check_static(script, agents=agents, max_calls=max_calls, args=args)
    if not for_the_engine(problems):
        return problems
    from ..worker.process import WorkerDied, compile_script  # a check by reading alone starts no process

    verdict: SyntaxProblem | ScriptRefused | WorkerDied | None
    try:
        verdict = await compile_script(script)
    except (ScriptRefused, WorkerDied) as error:
        verdict = error
    return with_verdict(script, problems, verdict)


def for_the_engine(problems: Collection[Problem]) -> bool:
    """Whether a script with these problems of ``check_static`` is one that the engine may be given."""
    return not any(problem.rule in _NOT_FOR_THE_ENGINE for problem in problems)


def with_verdict(
    script: str, problems: list[Problem], verdict: SyntaxProblem | ScriptRefused | WorkerDied | None
) -> list[Problem]:
    """The problems with what the engine said, or why it said nothing; None: it compiles the script."""
    if verdict is None:
        return problems
    if isinstance(verdict, ScriptRefused):
        return _sorted([*problems, _refusal(verdict)])
    if isinstance(verdict, Exception):
        message = f"the engine gave up compiling this script: {verdict.message}"
        return _sorted([*problems, Problem("syntax", "error", 1, 1, message)])
    source = parse(script)
    line, column = source.position(source.offset(verdict.line or 1, verdict.column or 1))
    message = verdict.message.rstrip(".")
    unclosed = source.scan.unclosed
    if unclosed is not None:
        opened_line, opened_column = source.character_position(unclosed)
        message += f"; '{script[unclosed]}' was opened at line {opened_line}, column {opened_column}"
    return _sorted([*problems, Problem("syntax", "error", line, column, message)])


def _rules(analysis: Analysis, agents: Collection[str] | None, max_calls: int) -> None:
    """Run every rule. One that finds the script nested too deeply to follow says nothing, and the others go on."""
    whole = analysis.source.whole
    flow = _flow(analysis) if whole else None
    approvals = None
    if flow is not None:
        with suppress(RecursionError):
            approvals = Approvals(analysis, flow)
    versions = approvals.versions if approvals is not None else Versions(analysis)
    rules: list[Callable[[], None]] = [
        lambda: check_calls(analysis, agents),
        lambda: check_steps(analysis, flow, versions),
        lambda: check_modules(analysis),
        lambda: check_regexes(analysis),
    ]
    if whole:
        rules += [
            lambda: check_names(analysis),
            lambda: check_waits(analysis),
            lambda: check_promises(analysis),
        ]
    if flow is not None:
        known_flow = flow
        rules.append(lambda: check_paths(analysis, known_flow, max_calls))
    if approvals is not None:
        known_approvals = approvals
        rules.append(lambda: check_approvals(analysis, known_approvals))
    for rule in rules:
        with suppress(RecursionError):
            rule()


def _flow(analysis: Analysis) -> Flow | None:
    try:
        return Flow(analysis)
    except (FlowTooLarge, RecursionError):
        return None


def _arguments(args: Any) -> list[Problem]:
    try:
        size = jsontext.size(args, "the arguments")
    except jsontext.JsonRefused as error:
        return [Problem("invalid-args", "error", 1, 1, f"{error}; arguments must be a JSON object")]
    if not isinstance(args, dict):
        return [Problem("invalid-args", "error", 1, 1, "the arguments must be a JSON object, such as {}")]
    if size <= limits.ARGS_BYTES:
        return []
    message = (
        f"the arguments are {size:,} bytes of JSON and a run takes {limits.ARGS_BYTES:,}; shorten them, or let an "
        "Agent read the larger material"
    )
    return [Problem("args-too-large", "error", 1, 1, message)]


def _size(script: str) -> list[Problem]:
    try:
        size = script_bytes(script)
    except ScriptRefused:
        return []
    if size <= limits.SCRIPT_BYTES:
        return []
    message = (
        f"the script is {size:,} bytes of JSON and a run takes {limits.SCRIPT_BYTES:,}; shorten it, or pass the "
        "larger texts in args"
    )
    return [Problem("script-too-large", "error", 1, 1, message)]


def _refusal(error: ScriptRefused) -> Problem:
    """A refused script as a problem, its sentence without the place, which the problem carries by itself."""
    line, column = error.line or 1, error.column or 1
    rule = "not-text" if error.code == "not_text" else "one-function-body"
    return Problem(rule, "error", line, column, error.message.removeprefix(f"line {line}, column {column}: "))


def _sorted(problems: list[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: (problem.line, problem.column, problem.rule))
