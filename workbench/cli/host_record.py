"""What the host keeps of a step: its child run with events, and the assembly of its Agent. For ``step``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.child_runs import Assembled, ChildRun
    from workbench.workspace import Workspace
    from workflows_core.model import RunView, StepView

    from .output import Output, Piece


def child_of(workspace: Workspace, step: StepView) -> ChildRun | None:
    """The step's child run; None where it has none, or the host's store does not know it. Raises StoreError."""
    from workbench.child_runs import child_run

    return None if step.child_run_id is None else child_run(workspace.host_store_path, step.child_run_id)


def assembly_of(workspace: Workspace, view: RunView, step: StepView) -> Assembled | None:
    """How the assembly of the step's Agent compares with the one before it. None and raises: as ``child_of``."""
    import msgspec

    from workbench.child_runs import assemblies

    alone = msgspec.structs.replace(view, steps=(step,))
    return assemblies(workspace.host_store_path, alone).get(step.step_id)


def show_child(output: Output, step: StepView, child: ChildRun | None, at: int) -> None:
    """A child run in facts, then its events: each on one line, below it what that line cannot say."""
    from workbench import child_words

    from . import render

    output.line()
    output.line(("Child run", "title"))
    if child is None:
        none = "It has no child run."
        output.line("  ", none if step.child_run_id is None else child_words.unknown(step.child_run_id))
        return
    rows: list[list[Piece]] = [[(name, "quiet"), value] for name, value in child_words.facts(child, at)]
    output.table(rows, indent="  ")
    output.line()
    output.line((child_words.counted(child), "title"))
    for event in child.events:
        said = child_words.summary(event)
        head = f"{event.seq:>4} {child_words.since(child, event):>9}  "
        output.line((head, "quiet"), event.event_type, f"  {said}" if said else "")
        for name, text in child_words.parts(event):
            if " ".join(text.split()) != said:
                output.line((f"       {name}", "quiet"))
                render.value(output, _value(text), " " * 9)
        if cut := child_words.cut(event):
            output.line((f"       {cut}", "quiet"))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def show_assembly(output: Output, view: RunView, step: StepView, told: Assembled | None, at: int) -> None:
    """What the step's Agent was assembled from, and how that compares with the assembly before."""
    from workbench import child_words

    from . import render

    output.line()
    output.line(("Evidence", "title"))
    if not step.evidence:
        output.line("  The host gave no evidence for this step.")
        return
    output.line("  ", ("  ".join(child_words.evidence_head(step)), "quiet"))
    for line in child_words.compared(told, step, view.run_id, at):
        plain = [(text if output.unicode else text.replace("→", "->"), tone) for text, tone in line]
        output.line("  ", *((text, tone) if tone else text for text, tone in plain))
    render.value(output, dict(step.evidence), "  ")
