"""Writes the sample bundles of ``examples/bundles``: ``python -m tests.samples``.

``complete`` is the bundled example as it ran on stubs, ``crashed`` the same with its process killed while the first
review was under way, ``diverged`` the complete one with another wording recorded in a request, chained anew.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from workflows_core.journal.bundle import open_bundle, save
from workflows_core.journal.frames import JournalWriter

EXAMPLES = Path(__file__).parent.parent / "examples"
BUNDLES = EXAMPLES / "bundles"
MAIN = "import sys; from workbench.cli.main import main; main(sys.argv[1:])"
PRODUCT = '{"product": "Hand soap", "formula": ["water", "soap"], "claims": ["gentle"]}'


def command(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


def complete(folder: Path, target: Path) -> None:
    run = json.loads(command(folder, "run", "checks.workflow.js", "--args", PRODUCT, "--json"))
    command(folder, "export", run["run_id"], "-o", str(target))


def crashed(folder: Path, target: Path) -> None:
    stubs = (EXAMPLES / "checks.stubs.yaml").read_text("utf-8")
    (folder / "slow.stubs.yaml").write_text("- step: review-1\n  hang: true\n" + stubs)
    running = subprocess.Popen(
        [
            sys.executable,
            "-c",
            MAIN,
            "run",
            "checks.workflow.js",
            "--args",
            PRODUCT,
            "--stubs",
            "slow.stubs.yaml",
        ],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    with running:
        assert running.stderr is not None
        for line in running.stderr:
            if "running" in line and "review-1" in line:
                break
        running.kill()
    newest = json.loads(command(folder, "runs", "--json"))["runs"][0]
    command(folder, "export", newest["run_id"], "-o", str(target))


def diverged(source: Path, target: Path) -> None:
    bundle = open_bundle(source)
    writer = JournalWriter()
    old, new = b"Are these findings complete?", b"Is this list of findings complete?"
    frames = [
        writer.frame(
            frame.kind,
            frame.body.replace(old, new) if frame.number == 6 else frame.body,
            frame.at,
            frame.side,
        )
        for frame in bundle.frames
    ]
    assert frames[6].body != bundle.frames[6].body
    save(msgspec.structs.replace(bundle, frames=tuple(frames)), target)


def main() -> None:
    BUNDLES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("checks.workflow.js", "checks.stubs.yaml"):
            (folder / part).write_text((EXAMPLES / part).read_text("utf-8"), "utf-8")
        complete(folder, BUNDLES / "complete.wfrun")
        crashed(folder, BUNDLES / "crashed.wfrun")
    diverged(BUNDLES / "complete.wfrun", BUNDLES / "diverged.wfrun")


if __name__ == "__main__":
    main()
