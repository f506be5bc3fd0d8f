"""Looking at runs and ending them, over a client that shows any state."""

from __future__ import annotations

import pytest

from tests.workbench.cli.conftest import Command
from tests.workbench.cli.fakes import FakeClient
from tests.workbench.views import AT, agent_step, run_view
from workbench.cli import common, runs
from workflows_core.engine.requests import Kept, Outcome
from workflows_core.errors import UsageError
from workflows_core.model import Cause, LogLine, RunState, StepKind, StepStatus, Wait, now


def test_runs_lists_glyph_word_name_id_age_and_reason_in_columns(
    command: Command, fake: type[FakeClient]
) -> None:
    fake.reset(
        run_view(run_id="wr_1", name="checks", since=now() - 3 * 60_000_000),
        run_view(
            run_id="wr_2", name="日本", state=RunState.FAILED, cause=Cause("x", "it \x1b[1m broke", 12, 7)
        ),
        run_view(
            run_id="wr_3",
            name="c",
            state=RunState.WAITING_APPROVAL,
            waiting=Wait("checkpoint", "ok", 1, None),
        ),
    )
    result = command("runs")
    assert result.status == 0
    lines = result.out.splitlines()
    assert lines[0] == "✓ completed         checks  wr_1  3 min ago"
    assert lines[1].startswith("✗ failed            日本    wr_2  ")
    assert lines[1].endswith("it ␛[1m broke (line 12:7)")
    assert lines[2].startswith("◆ waiting approval  c       wr_3  ")
    assert lines[2].endswith("approval of ok")
    assert fake.opened == ["never"]


def test_runs_shows_the_latest_20_and_says_how_to_see_all(command: Command, fake: type[FakeClient]) -> None:
    fake.reset(*[run_view(run_id=f"wr_{number:02}") for number in range(25)])
    result = command("runs")
    assert result.out.count("\n") == 20
    assert "runs --all" in result.err
    assert len(command("runs", "--all", "--json").document["runs"]) == 25


def test_runs_in_a_state(command: Command, fake: type[FakeClient]) -> None:
    assert set(runs._STATES) == {state.value for state in RunState}
    ended = [run_view(run_id=f"wr_{number:02}") for number in range(25)]
    fake.reset(
        *ended, run_view(run_id="wr_w", state=RunState.PAUSED), run_view(run_id="wr_f", state=RunState.FAILED)
    )
    asked = command("runs", "--state", "paused", "--state", "failed", "--json").document["runs"]
    assert [run["run_id"] for run in asked] == ["wr_w", "wr_f"]
    assert command("runs", "--state", "completed").out.count("\n") == 20
    assert command("runs", "--state", "completed", "--all").out.count("\n") == 25
    none = command("runs", "--state", "waiting_approval", "--state", "queued")
    assert none.out == "" and "is waiting approval or queued." in none.err
    assert command("runs", "--state", "done").status == 2


def test_show_follows_a_run_and_ends_with_its_code(command: Command, fake: type[FakeClient]) -> None:
    moving = run_view(state=RunState.RUNNING, steps=(agent_step("a", status=StepStatus.RUNNING),))
    failed = run_view(state=RunState.FAILED, cause=Cause("x", "it broke"), steps=(agent_step("a"),))
    fake.reset(moving, moving, failed)
    followed = command("show", "wr_", "--follow")
    assert followed.status == 1 and "it broke" in followed.out and fake.opened == ["never", "never"]
    assert "● running" in followed.err and "✓ completed" in followed.err
    fake.reset(moving, failed)
    document = command("show", "wr_", "--follow", "--json").document
    assert (document["state"], len(document["steps"])) == ("failed", 1)
    assert command("show", "wr_", "--follow", "--script").status == 2


def test_show_shows_the_script(command: Command, fake: type[FakeClient]) -> None:
    fake.reset(run_view(script="return 1;\n// \x1b[2J\n"))
    assert command("show", "wr_", "--script").out == "return 1;\n// ␛[2J\n"
    document = command("show", "wr_", "--script", "--json").document
    assert document["script"] == "return 1;\n// \x1b[2J\n" and document["run_id"]
    assert "script" not in command("show", "wr_", "--json").document


def test_show_tells_everything_of_a_run(command: Command, fake: type[FakeClient]) -> None:
    fake.reset(
        run_view(
            state=RunState.FAILED,
            parent_run_id="wr_parent",
            cause=Cause("agent_failed", "check failed", 14, 9),
            steps=(
                agent_step("evidence"),
                agent_step(
                    "check",
                    status=StepStatus.FAILED,
                    line=14,
                    badge=None,
                    error=Cause("agent_failed", "no luck"),
                ),
            ),
            log=(LogLine(AT, "half way", 9, 1, 2),),
            result={"findings": ["ü\x1b"]},
            has_result=True,
        )
    )
    result = command("show", "wr_01")
    assert result.status == 0
    assert result.err == ""
    lines = result.out.splitlines()
    assert lines[0] == "checks  wr_0123456789abcdef"
    assert lines[1].startswith("✗ failed ")
    assert "  check failed (line 14:9)" in lines
    assert "script aaaaaaa; arguments bbbbbbb; request req_1" in lines
    assert "forked from wr_parent" in lines
    assert "2 steps" in lines
    assert "  ✓ completed  evidence  lead_agent  stub  0.4 s  line 5" in lines
    assert "  ✗ failed     check     lead_agent        0.4 s  line 14  no luck" in lines
    assert any(line.endswith("line 9  half way") for line in lines)
    assert '      "ü\\u001b"' in lines


def test_show_is_0_for_a_run_in_any_state(command: Command, fake: type[FakeClient]) -> None:
    for state in RunState:
        fake.reset(run_view(state=state))
        result = command("show", "wr_", "--json")
        assert result.status == 0
        assert result.document["state"] == state.value


def test_step_shows_input_and_output_of_the_latest_attempt(command: Command, fake: type[FakeClient]) -> None:
    fake.reset(
        run_view(
            steps=(
                agent_step("a", status=StepStatus.FAILED, error=Cause("x", "first")),
                agent_step("a", attempt=2, output="two\nlines\x07"),
            )
        )
    )
    result = command("step", "wr_", "a")
    assert "agent, attempt 2" in result.out
    assert "  two\n  lines␇\n" in result.out
    assert '"ask": "something"' in result.out
    assert command("step", "wr_", "a", "--json").document["output"] == "two\nlines\x07"


def test_step_of_a_wait_has_no_input(command: Command, fake: type[FakeClient]) -> None:
    held = agent_step(
        "hold", kind=StepKind.PAUSE, agent_ref=None, badge=None, input=None, status=StepStatus.WAITING
    )
    fake.reset(run_view(state=RunState.PAUSED, steps=(held,)))
    result = command("step", "wr_", "hold")
    assert "‖ waiting" in result.out
    assert "Input" not in result.out


def test_an_unknown_step_names_the_known_ones(command: Command, fake: type[FakeClient]) -> None:
    fake.reset(run_view(steps=(agent_step("a"), agent_step("b"))))
    result = command("step", "wr_", "c")
    assert result.status == 2
    assert "has no step 'c'; its steps: a, b" in result.err


def test_log(command: Command, fake: type[FakeClient]) -> None:
    fake.reset(run_view(log=(LogLine(AT, "one\n", 9, 1, 2), LogLine(AT, "two", None, None, 3))))
    assert [line.split("  ")[-1] for line in command("log", "wr_").out.splitlines()] == ["one␊", "two"]
    assert [line["message"] for line in command("log", "wr_", "--json").document["log"]] == ["one\n", "two"]
    fake.reset(run_view())
    silent = command("log", "wr_")
    assert silent.out == ""
    assert "has logged nothing" in silent.err


def test_cancel_waits_for_the_end_and_shows_it(command: Command, fake: type[FakeClient]) -> None:
    moving = run_view(state=RunState.RUNNING, cancel_requested=True)
    fake.reset(moving, moving, run_view(state=RunState.CANCELLED))
    result = command("cancel", "wr_")
    assert result.status == 0
    assert "⊘ cancelled" in result.out
    assert fake.opened == ["never", "if_free"]


def test_cancel_says_when_the_end_is_not_reached(command: Command, fake: type[FakeClient]) -> None:
    fake.reset(run_view(state=RunState.NEEDS_RECONCILIATION, cancel_requested=True))
    result = command("cancel", "wr_", "--json")
    assert result.status == 0
    assert result.document == {
        "run_id": "wr_0123456789abcdef",
        "status": "recorded",
        "state": "needs_reconciliation",
        "message": "cancelling run wr_0123456789abcdef",
    }


def test_cancel_does_not_watch_for_ever(
    command: Command, fake: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_CANCEL_SECONDS", 0.05)
    fake.reset(run_view(state=RunState.RUNNING))
    result = command("cancel", "wr_", "--json")
    assert (result.document["status"], result.document["state"]) == ("recorded", "running")


def test_delete_one(command: Command, fake: type[FakeClient]) -> None:
    result = command("delete", "wr_0", "--json")
    assert result.document["deleted"] == ["wr_0123456789abcdef"]
    assert "was deleted" in command("delete", "wr_0").out


def test_delete_older_than_takes_only_what_can_be_deleted_and_is_old_enough(
    command: Command, fake: type[FakeClient]
) -> None:
    old = run_view(run_id="wr_old")
    fresh = run_view(run_id="wr_fresh", created_at=now())
    fake.reset(old, fresh)
    assert command("delete", "--older-than", "7d", "--json").document["deleted"] == ["wr_old"]
    fake.reset(fresh, run_view(run_id="wr_live", state=RunState.RUNNING))
    result = command("delete", "--older-than", "7d")
    assert result.out == "no run that can be deleted is older than 7d\n"
    assert "if_free" not in fake.opened


def test_delete_older_than_names_what_it_kept_and_why(
    command: Command, fake: type[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def keeps(self: FakeClient, before: int) -> Outcome:
        why = "run wr_old has steps whose outcome is not known: a"
        return Outcome("applied", "0 runs were deleted, 1 was kept", (), (Kept("wr_old", why),))

    monkeypatch.setattr(FakeClient, "delete_older_than", keeps)
    fake.reset(run_view(run_id="wr_old"))
    result = command("delete", "--older-than", "7d")
    assert result.out == "0 runs were deleted, 1 was kept\n"
    assert result.err == "Kept: run wr_old has steps whose outcome is not known: a\n"
    (kept,) = command("delete", "--older-than", "7d", "--json").document["kept"]
    assert kept["run_id"] == "wr_old" and "not known" in kept["message"]


@pytest.mark.parametrize(("answer", "deleted"), [("n\n", False), ("y\n", True)])
def test_delete_older_than_asks_on_a_terminal(
    command: Command, fake: type[FakeClient], monkeypatch: pytest.MonkeyPatch, answer: str, deleted: bool
) -> None:
    monkeypatch.setattr(runs, "interactive", lambda: True)
    monkeypatch.setattr("click.confirm", lambda *_, **__: answer == "y\n")
    fake.reset(run_view())
    result = command("delete", "--older-than", "7d")
    assert result.status == 0
    assert ("1 runs were deleted" in result.out) is deleted
    assert ("Nothing was deleted" in result.err) is not deleted


@pytest.mark.parametrize(
    ("text", "seconds"), [("90m", 5400), ("12h", 43_200), ("7d", 604_800), ("2 w", 1_209_600), ("30S", 30)]
)
def test_ages(text: str, seconds: int) -> None:
    assert runs.age(text) == seconds * 1_000_000


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "1.5h", "7 days", "9999999999d"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not an age"):
        runs.age(text)


def test_nobody_is_asked_without_a_terminal() -> None:
    assert not common.interactive()


PAYLOADS = [
    "\x1b[2J\x1b[H", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "\x1b]52;c;aGk=\x07", "\x1bPq\x1b\\",
    "\x1b_apc\x1b\\", "\x9b31m", "\x9d0;t\x9c", "\x90q\x9c", "a\rb", "a\x08b", "\x7f", "\u202eabc", "\u2066a\u2069",
    "\u200b", "\U000e0041", "\u2028", "\x00", "\ud800", "[bold red]x[/]",
]  # fmt: skip
ACTING = {*range(32), *range(0x7F, 0xA0), 0x202E, 0x2066, 0x2069, 0x200B, 0xE0041, 0x2028, 0xD800} - {10}


@pytest.mark.parametrize("payload", PAYLOADS)
def test_i13_no_text_of_a_run_acts_on_the_terminal(
    command: Command, fake: type[FakeClient], payload: str
) -> None:
    text = f"<{payload}>"
    fake.reset(
        run_view(
            name=text,
            request_id=text,
            parent_run_id=text,
            state=RunState.FAILED,
            cause=Cause(text, text),
            steps=(
                agent_step(text, agent_ref=text, badge=text, error=Cause("x", text), output={text: text}),
            ),
            log=(LogLine(AT, text, 1, 1, 1),),
            result=text,
            has_result=True,
        )
    )
    for arguments in (
        ("runs",),
        ("show", "wr_"),
        ("step", "wr_", text),
        ("log", "wr_"),
        ("step", "wr_", payload),
    ):
        for option in ([], ["--json"]):
            result = command(*arguments, *option)
            assert not {ord(char) for char in result.out + result.err} & ACTING, arguments
