"""What cannot be used is refused in a sentence that says what, where and what to do, and nothing is lost."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.workbench.cli.conftest import Command
from workbench.cli.reconcile import output_option
from workflows_core.errors import UsageError

EMPTY = "return 1;\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_missing_script(command: Command) -> None:
    for name in ("check", "run"):
        result = command(name, "nowhere.workflow.js")
        assert result.status == 2
        assert result.err == (
            "That cannot be used: the script nowhere.workflow.js does not exist; check the path\n"
        )


def test_a_script_that_is_a_folder(command: Command, folder: Path) -> None:
    result = command("check", folder)
    assert result.status == 2
    assert "is a folder" in result.err


def test_an_unreadable_script(command: Command, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("workbench.scripts.os.open", refuse)
    result = command("run", script)
    assert result.status == 2
    assert "cannot be read: Permission denied" in result.err


def test_a_script_that_is_a_pipe_does_not_hang(command: Command, folder: Path) -> None:
    os.mkfifo(folder / "pipe.js")
    assert command("check", folder / "pipe.js").status == 0


def test_a_script_that_is_not_text(command: Command, folder: Path) -> None:
    (folder / "a.js").write_bytes(b"return '\xff';")
    result = command("check", folder / "a.js")
    assert result.status == 2
    assert "is not UTF-8 text: byte 8 is invalid" in result.err


def test_a_script_of_17_kb(command: Command, folder: Path) -> None:
    path = write(folder / "big.workflow.js", f"return '{'x' * 17_000}';\n")
    for name in ("check", "run"):
        result = command(name, path)
        assert result.status == 2
        assert "big.workflow.js takes 17,0" in result.err
        assert "16,000" in result.err


def test_a_syntax_error(command: Command, folder: Path) -> None:
    path = write(folder / "a.workflow.js", "const a = ;\nreturn a;\n")
    for name in ("check", "run"):
        result = command(name, path, "--json")
        assert result.status == 1
        (problem, *_) = result.document["problems"]
        assert list(problem) == ["rule", "severity", "line", "column", "message", "fix"]
        assert (problem["rule"], problem["severity"], problem["line"]) == ("syntax", "error", 1)
    shown = command("run", path)
    assert shown.status == 1
    assert f"{path}:1:" in shown.err
    assert "Not launched" in shown.err
    assert not (folder / ".workbench").exists()


def test_an_unknown_agent(command: Command, folder: Path) -> None:
    path = write(folder / "a.workflow.js", "return await agent({stepId: 'a', agentRef: 'ghost', task: 1});\n")
    result = command("run", path, "--json")
    assert result.status == 1
    assert [problem["rule"] for problem in result.document["problems"]] == ["unknown-agent"]
    assert "ghost" in result.err


def test_warnings_alone_are_no_failure(command: Command, folder: Path) -> None:
    path = write(folder / "a.workflow.js", "return 1;\nlog('never');\n")
    result = command("check", path)
    assert result.status == 0
    assert "1 warning" in result.out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "--args is not valid JSON: "),
        ("[1]", "--args must be a JSON object"),
        ("1", "--args must be a JSON object"),
        ('{"a": NaN}', "holds NaN"),
        ('{"a":1,"a":2}', '--args has the key "a" twice in one object; the second is at line 1, column 8'),
        (
            '{"b": [{"a": 1,\n "\\u0061": 2}]}',
            'has the key "a" twice in one object; the second is at line 2, column 2',
        ),
        ('{"a": 9007199254740993}', "9007199254740993"),
        ('{"a": "\\ud800"}', "lone surrogate"),
        (json.dumps({"a": "x" * 4000}), "4,000 are admitted"),
        ("@nowhere.json", "the arguments file nowhere.json does not exist"),
    ],
)
def test_arguments_that_cannot_be_used(command: Command, script: Path, text: str, words: str) -> None:
    result = command("run", script, "--args", text)
    assert result.status == 2
    assert words in result.err


def test_an_arguments_file_that_is_not_json(command: Command, script: Path, folder: Path) -> None:
    write(folder / "args.json", '{"a": 1,}')
    result = command("run", script, "--args", "@args.json")
    assert result.status == 2
    assert "args.json" in result.err
    assert "line 1" in result.err


def test_a_stub_set_with_an_unknown_key(command: Command, script: Path, folder: Path) -> None:
    write(folder / "bad.yaml", "- step: a\n  replay: 1\n")
    result = command("run", script, "--stubs", "bad.yaml")
    assert result.status == 2
    assert "bad.yaml:2" in result.err
    assert "replay" in result.err
    assert not (folder / ".workbench").exists()


def test_a_missing_stub_set(command: Command, script: Path) -> None:
    result = command("run", script, "--stubs", "nowhere.yaml")
    assert result.status == 2
    assert "the stub set nowhere.yaml cannot be read" in result.err


def test_stubs_and_real_agents_exclude_each_other(command: Command, script: Path) -> None:
    result = command("run", script, "--stubs", "a.yaml", "--agents", "real")
    assert result.status == 2
    assert "exclude each other" in result.err


@pytest.mark.parametrize("arguments", [("check",), ("run",)])
@pytest.mark.parametrize(
    "text",
    [
        "colour: red\n",
        "plugins: [\n",
        "plugins:\n  - {name: w, use: 'workflows_core.extension:install', config: {max_cost_usd: 5}}\n",
        "plugins:\n  - {name: w, use: 'workflows_core.extension:install', config: {max_calls: 99}}\n",
        "plugins: []\n",
    ],
)
def test_a_wrong_configuration(
    command: Command, script: Path, folder: Path, arguments: tuple[str, ...], text: str
) -> None:
    write(folder / "workbench.yaml", text)
    result = command(*arguments, script)
    assert result.status == 6
    assert result.err.startswith("The configuration is wrong: ")


@pytest.mark.parametrize("arguments", [("runs",), ("check", "one.workflow.js"), ("run", "one.workflow.js")])
def test_a_wrong_setting_is_named_with_file_line_and_record(
    command: Command, script: Path, folder: Path, arguments: tuple[str, ...]
) -> None:
    use = "workflows_core.extension:install"
    write(
        folder / "workbench.yaml", f"plugins:\n  - name: w\n    use: {use}\n    config: {{concurrency: 99}}\n"
    )
    result = command(*arguments)
    assert result.status == 6
    assert "workbench.yaml:4:14: plugins[0].config.concurrency is 99; admitted are" in result.err


def test_a_workspace_that_is_not_there(command: Command) -> None:
    result = command("runs", "--workspace", "nowhere")
    assert result.status == 2
    assert "is not a folder" in result.err


def test_an_unknown_run_in_an_empty_workspace(command: Command, folder: Path) -> None:
    for arguments in (
        ("show", "wr_1"),
        ("log", "wr_1"),
        ("step", "wr_1", "a"),
        ("cancel", "wr_1"),
        ("delete", "wr_1"),
    ):
        result = command(*arguments)
        assert result.status == 2
        assert result.err.startswith("Not found: ")
    assert not (folder / ".workbench").exists()


def test_a_hostile_file_name_cannot_act_on_the_terminal(command: Command) -> None:
    result = command("check", "a\x1b]52;c;aGk=\x07\u202e.js")
    assert result.status == 2
    assert "\x1b" not in result.err
    assert "a␛]52;c;aGk=␇\\u{202E}.js" in result.err


def test_an_output_that_a_person_gives_has_no_key_twice(folder: Path) -> None:
    given = write(folder / "out.json", '{"a": 1,\n "a": 2}')
    with pytest.raises(
        UsageError, match=r'out.json has the key "a" twice in one object; the second is at line 2'
    ):
        output_option(f"@{given}")
    write(given, '{"a": 1}')
    assert output_option(f"@{given}") == ({"a": 1}, True)
