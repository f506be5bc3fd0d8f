"""Command agents: real programs, their ends in words, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from extension_api.agent_runs import AgentRunStatus
from tests.workbench.agents.contract import PLANTED, BackendContract
from tests.workbench.host.kit import eventually
from workbench.agents.base import Answer, BackendUnavailable, Call, ChildRef, FileRefused
from workbench.agents.command import CommandBackend
from workbench.agents.folder import read_inside
from workbench.agents.survey import real_agents
from workbench.host.config import parse_config
from workflows_core.errors import ConfigurationError

SECRET = "tok-4711-very-secret"
CONFIG = """
agents:
  good: {backend: command, argv: [tools/answer]}
  bad: {backend: command, argv: [no-such-program-4711]}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".workbench").mkdir(mode=0o700)
    return tmp_path


def shell(script: str, **settings: Any) -> dict[str, Any]:
    return {"argv": ["sh", "-c", script], "stop_seconds": 0.2, **settings}


def call(settings: Mapping[str, Any], task: Any = "hello", child: str = "cr_1") -> Call:
    return Call(
        child, "helper", "wf_1", {"task": task, "artifacts": []}, "wr_1", "a", 1, {"agents": "real"}, settings
    )


def child_of(made: Call) -> ChildRef:
    return ChildRef(made.child_run_id, made.thread_id, made.agent_ref, made.settings)


def nobody(run_id: str, entry: int) -> int:
    return 0


async def ask(root: Path, settings: Mapping[str, Any], task: Any = "hello") -> Answer:
    backend = CommandBackend(root)
    made = call(settings, task)
    started = backend.start(made, nobody, 0)
    assert (started.badge, started.durable, started.answer) == ("live", False, None)
    return await backend.observe(child_of(made), made)


async def output(root: Path, script: str, **settings: Any) -> Any:
    answer = await ask(root, shell(script, **settings))
    assert answer.status is AgentRunStatus.SUCCESS, answer.error_message
    return answer.output


class CommandLab:
    """A program that does what the file ``plan`` says."""

    options: Mapping[str, Any] = {"agents": "real"}

    def __init__(self, root: Path) -> None:
        self.backend = CommandBackend(root)
        self._root = root
        self.settings: Mapping[str, Any] = {
            "argv": ["sh", "{workspace}/plan", "{workspace}"],
            "secrets": {"TOKEN": {"env": "MY_TOKEN"}},
            "stop_seconds": 0.2,
        }

    def _plan(self, script: str) -> None:
        (self._root / "plan").write_text(f'echo x >> "$1/asked"\n{script}\n', "utf-8")

    def answers(self, output: Any) -> None:
        (self._root / "reply").write_text(json.dumps(output), "utf-8")
        self._plan('cat "$1/reply"')

    def fails(self) -> None:
        self._plan('echo "no, $TOKEN" >&2; exit 1')

    def hangs(self) -> None:
        self._plan("sleep 600")

    def asked(self) -> int:
        path = self._root / "asked"
        return len(path.read_text("utf-8").split()) if path.exists() else 0


class TestCommand(BackendContract):
    @pytest.fixture
    def lab(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLab:
        monkeypatch.setenv("MY_TOKEN", PLANTED)
        return CommandLab(root)


# What goes in and out.


async def test_the_program_is_given_one_line_of_json(root: Path) -> None:
    assert await output(root, "cat") == {
        "agent": "helper",
        "artifacts": [],
        "attempt": 1,
        "run_id": "wr_1",
        "step_id": "a",
        "task": "hello",
        "thread_id": "wf_1",
    }
    assert await output_of_new(root, "wc -l") == 1


async def output_of_new(root: Path, script: str, **settings: Any) -> Any:
    """The output of another child run, so that it has a folder of its own."""
    backend = CommandBackend(root)
    made = call(shell(script, **settings), child=f"cr_{len(list((root / '.workbench/children').glob('*')))}x")
    return (await backend.observe(child_of(made), made)).output


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("""echo '{"a": [1, 2.5, null]}'""", {"a": [1, 2.5, None]}),
        ("echo 42", 42),
        ("printf 'two\\nlines\\n\\n'", "two\nlines"),
        ("echo '{broken'", "{broken"),
        ("echo NaN", "NaN"),
        ("true", ""),
        ("printf '\\303\\251'", "é"),
    ],
)
async def test_what_is_json_is_json_and_the_rest_is_text(root: Path, script: str, expected: Any) -> None:
    assert await output(root, script) == expected


async def test_a_program_may_leave_its_input_unread_and_write_much_to_standard_error(root: Path) -> None:
    big = "x" * 15_000
    answer = await ask(root, shell("exec <&-; yes noise | head -c 3000000 >&2; echo done"), big)
    assert answer.output == "done"


# Its surroundings.


async def test_it_runs_in_a_private_folder_with_the_smallest_environment_and_no_terminal(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_TEST_SEEN", "yes")
    monkeypatch.setenv("WORKBENCH_TEST_HIDDEN", "no")
    monkeypatch.setenv("MY_TOKEN", SECRET)
    script = f"""
import json, os, sys
sys.stdin.read()
def tty():
    try:
        os.open("/dev/tty", os.O_RDWR)
    except OSError:
        return False
    return True
print(json.dumps([os.getcwd(), dict(os.environ), os.getsid(0) == os.getpid(), tty(), sorted(os.listdir("/proc/self/fd")),
    os.environ.get("TOKEN") == {SECRET!r}]))
"""
    del_token = "import os; seen = os.environ.pop('TOKEN'); os.environ['TOKEN'] = seen\n"
    settings = {
        "argv": [sys.executable, "-c", del_token + script.replace("dict(os.environ)", "sorted(os.environ)")],
        "env": ["WORKBENCH_TEST_SEEN", "WORKBENCH_TEST_ABSENT"],
        "secrets": {"TOKEN": {"env": "MY_TOKEN"}},
    }
    answer = await ask(root, settings)
    assert answer.status is AgentRunStatus.SUCCESS, answer.error_message
    cwd, environment, leads_session, tty, descriptors, token = answer.output
    folder = root / ".workbench" / "children" / "cr_1"
    assert cwd == str(folder.resolve())
    assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700
    allowed = {"PATH", "LANG", "LC_CTYPE", "TOKEN", "WORKBENCH_TEST_SEEN", "LD_LIBRARY_PATH"}
    assert {"TOKEN", "WORKBENCH_TEST_SEEN", "PATH"} <= set(environment) <= allowed
    assert (leads_session, tty, token) == (True, False, True)
    if sys.platform.startswith("linux"):
        assert [each for each in descriptors if int(each) > 3] == []  # 3 is the folder that it lists


async def test_a_path_is_relative_to_the_workspace_and_a_name_is_looked_up(root: Path) -> None:
    program = root / "tools" / "answer"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nsed s/hello/bye/ $1\n", "utf-8")
    backend = CommandBackend(root)
    settings = {"argv": ["tools/answer", "{workspace}/given"]}
    with pytest.raises(
        BackendUnavailable, match=r"no program tools/none; a path is relative to the workspace"
    ):
        backend.start(call({"argv": ["tools/none"]}), nobody, 0)
    with pytest.raises(BackendUnavailable, match=r"cannot be executed; chmod \+x"):
        backend.start(call(settings), nobody, 0)
    program.chmod(0o755)
    (root / "given").write_text("hello there\n", "utf-8")
    assert (await ask(root, settings)).output == "bye there"
    with pytest.raises(BackendUnavailable, match="no program no-such-program-4711 on the PATH"):
        backend.start(call({"argv": ["no-such-program-4711"]}), nobody, 0)
    with pytest.raises(BackendUnavailable, match="the environment variable NOT_THERE_4711 is not set"):
        backend.start(call(shell("true", secrets={"T": {"env": "NOT_THERE_4711"}})), nobody, 0)
    assert [problem for _, _, problem in real_agents(parse_config(CONFIG).agents.values(), root)] == [
        None,
        "there is no program no-such-program-4711 on the PATH of this workbench",
    ]
    with pytest.raises(BackendUnavailable, match="without a workspace"):
        CommandBackend().start(call(shell("true")), nobody, 0)


def test_the_description_holds_program_and_hash_and_no_secret(root: Path) -> None:
    settings = shell("echo", secrets={"T": {"env": "MY_TOKEN"}}, timeout_seconds=5)
    described = CommandBackend(root).describe("helper", settings, {})
    assert described.effective_model == "command/sh"
    assert described.model_parameters == {"timeout_seconds": 5, "max_output_bytes": 65_536}
    assert described.policies["program"] == "sh"
    other = CommandBackend(root).describe("helper", shell("echo "), {})
    assert described.policies["argv_sha256"] != other.policies["argv_sha256"]
    assert "MY_TOKEN" not in repr(described)


# How it ends.


async def failure(root: Path, settings: Mapping[str, Any]) -> tuple[str, str | None, str]:
    answer = await ask(root, settings)
    assert answer.output is None and answer.error_message is not None
    return answer.status.value, answer.error_code, answer.error_message


async def test_an_exit_code_is_told_with_the_last_lines_as_inert_text(root: Path) -> None:
    script = "for n in 1 2 3 4 5 6; do echo line $n >&2; done; printf 'bad \\033[31mred\\033]0;x\\007\\n' >&2; exit 3"
    status, code, message = await failure(root, shell(script))
    assert (status, code) == ("error", "program_failed")
    assert message == (
        "helper ended with exit code 3. It said: line 3 | line 4 | line 5 | line 6 | bad ␛[31mred␛]0;x␇"
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (shell("exit 1"), ("error", "program_failed", "helper ended with exit code 1")),
        (shell("kill -SEGV $$"), ("error", "program_failed", "helper was killed by SIGSEGV")),
        (
            shell("sleep 600", timeout_seconds=0.2),
            ("timeout", "agent_timeout", "helper did not end within 0.2 s (timeout_seconds) and was killed"),
        ),
        (
            shell("yes", max_output_bytes=1000),
            (
                "error",
                "output_too_large",
                "helper wrote more than 1,000 bytes (max_output_bytes) and was killed",
            ),
        ),
        (
            shell("printf '\\377'"),
            ("error", "output_not_text", "the output of helper is not UTF-8: byte 0 is invalid"),
        ),
        (
            shell("kill -KILL $PPID; sleep 600"),
            (
                "unknown",
                "uncertain",
                "the process that guards helper was killed, so nobody knows how it ended",
            ),
        ),
    ],
)
async def test_every_other_end_is_said_in_words(
    root: Path, settings: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    assert await failure(root, settings) == expected


async def test_a_file_that_is_no_program_is_said(root: Path) -> None:
    (root / "noise").write_bytes(b"\x01\x02\x03")
    (root / "noise").chmod(0o755)
    status, code, message = await failure(root, {"argv": ["./noise"]})
    assert (status, code) == ("error", "not_started")
    assert "helper could not be started: Exec format error; a script needs its first line" in message


async def test_where_the_folder_cannot_be_made_nothing_is_started(root: Path) -> None:
    (root / ".workbench" / "children").write_bytes(b"")
    status, code, message = await failure(root, shell(f"touch {root}/ran"))
    assert (status, code) == ("error", "not_started")
    assert "could not be started: File exists" in message
    assert not (root / "ran").exists()


# Secrets.


async def test_a_secret_reaches_neither_errors_nor_outputs_nor_captures(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", SECRET)
    secrets = {"secrets": {"TOKEN": {"env": "MY_TOKEN"}}}
    _, _, message = await failure(root, shell('echo "denied: $TOKEN" >&2; exit 1', **secrets))
    assert message.endswith("It said: denied: [secret]")
    for script in ('echo "$TOKEN"', 'echo "{\\"deep\\": [\\"x${TOKEN}y\\"]}"'):
        backend = CommandBackend(root)
        made = call(
            shell(f'{script}; echo "k=$TOKEN" > env.txt; echo clean > clean.txt', **secrets),
            child=script[5:8],
        )
        answer = await backend.observe(child_of(made), made)
        assert (answer.status, answer.error_code) == (AgentRunStatus.ERROR, "secret_in_output")
        assert SECRET not in str(answer)
        with pytest.raises(FileRefused) as caught:
            await backend.read_file(child_of(made), None, "env.txt", max_bytes=1000)
        assert caught.value.code == "secret_in_file"
        assert await backend.read_file(child_of(made), None, "clean.txt", max_bytes=1000) == (
            b"clean\n",
            "text/plain",
        )


async def test_a_line_that_was_cut_in_a_secret_is_not_told(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", SECRET)
    pad = 4096 - len(" end\n") - len(SECRET) // 2
    script = f'printf "%s%{pad}s end\\n" "$TOKEN" "" >&2; exit 1'
    _, _, message = await failure(root, shell(script, secrets={"TOKEN": {"env": "MY_TOKEN"}}))
    assert "secret" not in message and SECRET[-6:] not in message


# Folders.


async def test_folders_go_when_their_records_do(root: Path) -> None:
    backend = CommandBackend(root)
    children = root / ".workbench" / "children"
    for name in ("cr_1", "cr_2", "cr_3"):
        made = call(shell("echo x > file; mkdir d; chmod 0 d"), child=name)
        await backend.observe(child_of(made), made)
    backend.discard([])
    backend.discard(["cr_1", "cr_9"])
    await eventually(lambda: not (children / "cr_1").exists())
    assert (children / "cr_2").exists()
    backend.sweep(lambda name: name == "cr_3")
    await eventually(lambda: not (children / "cr_2").exists())
    assert [each.name for each in children.iterdir()] == ["cr_3"]
    CommandBackend(root / "empty").sweep(lambda name: False)


async def test_reading_a_file_never_holds_up_the_loop(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow disk is waited for in a thread; a FIFO, which nobody writes to, is not waited for at all."""
    backend = CommandBackend(root)
    made = call(shell("mkfifo fifo; echo x > file"))
    await backend.observe(child_of(made), made)
    with pytest.raises(FileRefused, match="not a regular file"):
        await backend.read_file(child_of(made), None, "fifo", max_bytes=10)
    disk = threading.Event()

    def slow(folder: Path, path: str, *, max_bytes: int) -> bytes:
        assert disk.wait(60), "the loop did not go on while the file was read"
        return read_inside(folder, path, max_bytes=max_bytes)

    monkeypatch.setattr("workbench.agents.command.read_inside", slow)
    reading = asyncio.create_task(backend.read_file(child_of(made), None, "file", max_bytes=10))
    await asyncio.sleep(0)
    disk.set()
    assert await reading == (b"x\n", "application/octet-stream")


# Settings.


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{backend: command}", "needs argv"),
        ("{backend: command, argv: []}", "needs argv"),
        ("{backend: command, argv: sh}", "must be a list"),
        ("{backend: command, argv: [sh, 3]}", r"argv\[1\] must be text"),
        ("{backend: command, argv: ['']}", r"argv\[0\] must be text"),
        ("{backend: command, argv: [sh], env: [A=B]}", r"env\[0\] must be the name"),
        ("{backend: command, argv: [sh], secrets: {A: word}}", "never holds the secret itself"),
        ("{backend: command, argv: [sh], secrets: {'A=': {env: B}}}", "is not usable as the name"),
        ("{backend: command, argv: [sh], timeout_seconds: 0}", "admitted are 1 to 600"),
        ("{backend: command, argv: [sh], stop_seconds: 60}", "admitted are 0 to 5"),
        ("{backend: command, argv: [sh], max_output_bytes: 2000000}", "admitted are 1 to 1,048,576"),
        ("{backend: command, argv: [sh], cwd: x}", "is not a key of"),
        ("{backend: manual, argv: [sh]}", "is not a key of"),
        ("{backend: manual, instructions: 3}", "must be text"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_at_their_place(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse_config(f"agents:\n  helper: {text}\n")


def test_good_settings_are_kept_as_they_are() -> None:
    text = """
agents:
  helper:
    backend: command
    argv: [python3, "{workspace}/tools/helper.py"]
    env: [HOME]
    secrets: {TOKEN: {keyring: helper}}
    timeout_seconds: 20
    stop_seconds: 1
    max_output_bytes: 1000
  person: {backend: manual, instructions: Look closely.}
"""
    agents = parse_config(text).agents
    assert json.loads(json.dumps(agents["helper"].settings))["secrets"] == {"TOKEN": {"keyring": "helper"}}
    assert agents["person"].settings == {"instructions": "Look closely."}
