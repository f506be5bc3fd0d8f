"""The support engineer's whole job, by keys: a process killed with SIGKILL, its store copied off the dead machine,
one file exported from that, and what happened, at which line, with which variables, and what recovery would do."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.workbench.crash import kit
from tests.workbench.tui.fakes import flat, until
from tests.workbench.tui.replay_support import MakeApp, enter, press, replay_of, sight
from workbench.tui.widgets.editor import ScriptEditor
from workbench.tui.widgets.lines import LineList

SCRIPT = """\
let total = 0;
const seen = [];
for (const round of [1, 2, 3]) {
  const r = await agent({stepId: `count-${round}`, agentRef: 'lead_agent', task: {round, total}});
  total += r.output.n;
  seen.push(r.output);
}
return {total, seen};
"""
STUBS = "- step: count-1\n  reply: {n: 7}\n- step: count-2\n  reply: {n: 5}\n- step: count-3\n  hang: true\n"


def crashed(folder: Path) -> Path:
    """A run whose process was killed in its third round, as one file, exported from a copy of its dead store."""
    machine = folder / "machine"
    machine.mkdir()
    script = kit.write_script(machine, "count", SCRIPT, STUBS)
    with kit.process("run", script, folder=machine) as running:
        kit.wait_for_line(running, "count-3")
        running.kill()
        running.communicate(timeout=kit.PATIENCE_SECONDS)
    kit.wait_until_free(machine)
    (run_id,) = (row[0] for row in kit.query(machine, "SELECT run_id FROM runs"))
    disk = folder / "disk"
    disk.mkdir()
    store = kit.store(machine)
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{store}{suffix}", disk / f"old.sqlite{suffix}")
    assert (disk / "old.sqlite-wal").stat().st_size > 0
    shutil.rmtree(machine)
    before = {file.name: file.read_bytes() for file in disk.iterdir()}
    target = folder / "crash.wfrun"
    with kit.process(
        "export", run_id[:9], "--store", disk / "old.sqlite", "-o", target, folder=folder
    ) as exporting:
        out, err = exporting.communicate(timeout=kit.PATIENCE_SECONDS)
        assert exporting.returncode == 0, out + err
    assert {file.name: file.read_bytes() for file in disk.iterdir()} == before
    shutil.rmtree(disk)
    return target


async def test_one_file_from_a_killed_process_tells_the_whole_story(
    replay_app: MakeApp, tmp_path: Path
) -> None:
    file = crashed(tmp_path)
    before = file.read_bytes()
    app = replay_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await press(pilot, "O")
        await enter(pilot, str(file))
        text = await press(pilot, "end")
        # What happened: it ended with the third call under way, at 4:19.
        assert "ends here: recoverable" in text and "that ran it ended while it was running" in flat(text)
        assert "count  4:19" in text and "▶4" in text
        assert "‖ ends early  The journal ends after frame 5, with no answer recorded for count-3." in text
        # What every variable was.
        assert sight(app) == (
            'block r not yet assigned loop round 3 script total 12 seen [{"n": 7}, {"n": 5}] '
            "in flight count-3 4:19 no answer"
        )
        # What recovery would do.
        told = flat(text)
        assert "recovery 2 reused · 1 observed at 4:19 count-3" in told
        assert "Unknown here: the configuration and the permissions of the workspace that ran it" in told
        # Backwards, and how a value came to be what it was.
        text = await press(pilot, "comma")
        assert "statement 10 of 10" in text
        await press(pilot, "comma", "comma")
        assert "total 7" in sight(app) and "round 2" in sight(app)
        await press(pilot, "W")
        await enter(pilot, "total")
        rows = app.screen.query_one(LineList).rows
        assert [rows.text(index) for index in range(len(rows))] == [
            "start not yet assigned", "count-1 0", "count-1 0", "count-2 7", "count-2 7", "count-3 12",
        ]  # fmt: skip
        text = await press(pilot, "home", "down", "down", "down", "enter")
        assert "Frame 3 " in text and "total 7" in sight(app)
        # What if the script had been another one: the first difference, and a look around in it.
        await press(pilot, "F")
        await enter(pilot, "the script")
        editor = app.screen.query_one(ScriptEditor)
        editor.text = editor.text.replace("total += r.output.n", "total += 2 * r.output.n")
        await press(pilot, "tab", "tab", "tab", "enter")
        await until(pilot, lambda: app.screen.id == "first-difference")
        text = await press(pilot)
        assert "Differs at frame 3, 4:19; frame 2 agreed" in text and "calls[0].task.total" in text
        await press(pilot, "tab", "tab", "enter")
        await until(pilot, lambda: "edited" in str(replay_of(app).panes.code.border_title))
        await press(pilot)
        assert "total 14" in sight(app) and "round 2" in sight(app)
        text = await press(pilot, "v")
        assert "Recorded (-) and now (+)" in text and "7" in text and "14" in text
    assert file.read_bytes() == before
