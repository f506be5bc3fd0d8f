"""Invariant 13: what scripts, Agents and files supply never acts on the terminal, in any command's output.

The judge knows nothing of the program's own filter: whatever Unicode calls a control, a format character, a
surrogate or a separator of lines is foreign, and so is everything that a terminal would obey.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import unicodedata
from pathlib import Path

import pytest

from tests.workbench.cli.conftest import Command, Result
from workbench.cli.main import COMMANDS

MAIN = "import sys; from workbench.cli.main import main; main(sys.argv[1:])"

PAYLOADS = {
    "csi": "\x1b[2J\x1b[1;1H\x1b[?1049h\x1b[6n\x1b[35m",
    "osc": "\x1b]0;title\x07\x1b]8;;http://x.invalid\x1b\\link\x1b]8;;\x1b\\\x1b]52;c;ZXZpbA==\x07",
    "dcs": "\x1bP+q544e\x1b\\\x1b_apc\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\",
    "escapes": "\x1bc\x1b7\x1b8\x1bM\x1b#8\x1b(0",
    "c1": "\x9b31m\x9d0;t\x9c\x90q\x9c\x9f\x9c\x85\x84",
    "c0": "\x00\x01\x07\x08\x0b\x0c\x0e\x0f\x18\x1a\x7f\roverwritten",
    "bidi": "\u202eevil\u202c\u2066\u2069\u200f\u061c",
    "invisible": "a\u200bb\u2060c\ufeffd\u00ad\u2028\u2029\U000e0001\U000e0041\ufe0f",
    "markup": "[bold red]M[/] [link=file:///etc/passwd]L[/link] [@click=app.quit]C[/]",
}
ALL = "".join(PAYLOADS.values())
#: What the program itself writes: its tones and their end.
AUTHORED = re.compile(r"\x1b\[(?:0|1|2|31|32|33|36)m")
#: Ignorable characters that Unicode counts as marks or letters.
IGNORABLE = re.compile("[\ufe00-\ufe0f\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\U000e0100-\U000e01ef]")


def foreign(text: str) -> list[str]:
    """Every character in ``text`` that acts on a terminal or cannot be seen, but line feeds."""
    found = [
        f"U+{ord(char):04X}"
        for char in text
        if char != "\n" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    ]
    return found + IGNORABLE.findall(text)


def clean(result: Result) -> Result:
    """The result, after its output and its errors were judged."""
    assert foreign(result.out) == [], result.out
    assert foreign(result.err) == [], result.err
    return result


def js(text: str) -> str:
    """A JavaScript literal of ``text``, in ASCII."""
    return json.dumps(text)


def yaml(text: str) -> str:
    """A YAML literal of ``text``, in ASCII."""
    return (
        '"'
        + "".join(char if char.isalnum() and char.isascii() else f"\\U{ord(char):08X}" for char in text)
        + '"'
    )


def hostile_run(folder: Path) -> Path:
    """A script that logs, asks for, gets and throws every payload."""
    lines = [f"log({js(text)});" for text in PAYLOADS.values()]
    lines += [
        f"await agent({{stepId: 'ok', agentRef: 'lead_agent', task: {{text: {js(ALL)}, {js(ALL)}: 1}}}});",
        "try { await agent({stepId: 'fails', agentRef: 'lead_agent', task: 1}); } catch (error) {}",
        f"throw new Error({js(ALL)});",
    ]
    script = folder / "hostile.workflow.js"
    script.write_text("\n".join(lines), "utf-8")
    stubs = f"- {{step: ok, reply: {{text: {yaml(ALL)}}}}}\n- {{step: fails, fail: {yaml(ALL)}}}\n"
    (folder / "hostile.stubs.yaml").write_text(stubs, "utf-8")
    return script


def test_the_judge_can_find_each_payload() -> None:
    for name, text in PAYLOADS.items():
        assert bool(foreign(text)) == (name != "markup"), name


def test_i13_every_command_shows_a_hostile_run_as_text(command: Command, folder: Path) -> None:
    ran = clean(command("run", hostile_run(folder), "--name", "N" + ALL[:70]))
    assert ran.status == 1
    assert PAYLOADS["markup"] in ran.err, "markup is text"
    run_id = clean(command("runs", "--json")).document["runs"][0]["run_id"]
    shown = clean(command("show", run_id))
    assert "␛[2J" in shown.out
    edited = folder / "edited.workflow.js"
    edited.write_text(f"log({js('other' + ALL[:100])});\nreturn 1;\n")
    for arguments in (
        ("runs",), ("log", run_id), ("step", run_id, "ok"), ("step", run_id, "fails"),
        ("step", run_id, ALL), ("cancel", run_id), ("replay", run_id, "--headless"),
        ("replay", run_id, "--headless", "--script", edited), ("export", run_id, "-o", folder / ALL[9:40]),
    ):  # fmt: skip
        clean(command(*arguments))
    log = clean(command("log", run_id))
    assert PAYLOADS["markup"] in log.out
    for path in (folder / ".workbench").glob("*.log"):
        assert foreign(path.read_text("utf-8")) == []
    # The JSON documents are ASCII, and nothing is lost in them.
    for arguments in (("show", run_id), ("log", run_id), ("step", run_id, "ok"), ("runs",)):
        assert command(*arguments, "--json").out.isascii()
    document = command("show", run_id, "--json").document
    assert [line["message"] for line in document["log"]] == list(PAYLOADS.values())
    assert ALL in document["cause"]["message"]
    assert command("step", run_id, "ok", "--json").document["output"] == {"text": ALL}
    clean(command("delete", run_id))


def test_i13_a_check_shows_a_hostile_script_as_text(command: Command, folder: Path) -> None:
    for number, text in enumerate(
        (
            f"await agent({{stepId: {js(ALL)}, agentRef: {js(ALL)}, task: 1}});\n",
            f"await agent({{stepId: 'a', agentRef: {js(ALL)}, task: 1}});\n",
            f"return 1 +; // {ALL}\n",
            f"const {ALL.replace(chr(0), '')} = 1;\n",
            f"import x from '{PAYLOADS['bidi']}';\n",
        )
    ):
        script = folder / f"{number}.workflow.js"
        script.write_text(text, "utf-8", newline="")
        checked = clean(command("check", script))
        assert checked.status == 1
        assert command("check", script, "--json").out.isascii()
        clean(command("run", script))


def test_i13_names_of_files_and_folders_are_text(command: Command, folder: Path) -> None:
    name = "".join(char for char in ALL if char not in "/\0")[:60]
    place = folder / name
    place.mkdir()
    script = place / f"{name[:40]}.workflow.js"
    script.write_text("return await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});\n")
    clean(command("check", script))
    clean(command("runs", "--workspace", place))
    ran = clean(command("run", script, "--workspace", place))
    assert ran.status == 0
    clean(command("show", "wr_", "--workspace", place))
    clean(command("doctor", "--workspace", place))
    script.write_text("return 1 +;\n")
    clean(command("check", script))
    clean(command("run", place / "missing.workflow.js"))
    clean(command("run", script, "--stubs", place / name))


@pytest.mark.parametrize(
    "text",
    [
        f"{yaml(ALL)}: 1\n",
        f"agents:\n  {yaml(ALL)}: {{backend: {yaml(ALL)}}}\n",
        f"plugins:\n  - {{name: {yaml(ALL)}, use: {yaml(ALL)}}}\n",
        "plugins:\n  - {name: w, use: 'workflows_core.extension:install'}\n"
        f"  - {{name: {yaml(PAYLOADS['csi'])}, use: {yaml('no' + PAYLOADS['osc'] + ':x')}, required: false}}\n",
        f"stubs: [{yaml(PAYLOADS['bidi'] + PAYLOADS['csi'])}]\n",
        f"# {PAYLOADS['csi']}\n",
    ],
)
def test_i13_a_hostile_configuration_is_refused_as_text(command: Command, folder: Path, text: str) -> None:
    (folder / "workbench.yaml").write_text(text, "utf-8")
    script = folder / "one.workflow.js"
    script.write_text("return 1;\n")
    for arguments in (("runs",), ("run", script), ("check", script), ("doctor",)):
        clean(command(*arguments))
    for path in (folder / ".workbench").glob("*.log"):
        assert foreign(path.read_text("utf-8")) == []


def test_i13_a_hostile_stub_set_is_refused_as_text(command: Command, folder: Path) -> None:
    script = folder / "one.workflow.js"
    script.write_text("return await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});\n")
    stubs = folder / "s.yaml"
    for text in (
        f"- {{{yaml(ALL)}: 1}}\n",
        f"- {{step: {yaml(ALL)}, nothing: 1}}\n",
        f"{ALL}\n",
        f"- {yaml(ALL)}\n",
    ):
        stubs.write_text(text, "utf-8", newline="")
        assert clean(command("run", script, "--stubs", stubs)).status == 2


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("demo", "serve", "_own")])
def test_i13_every_command_refuses_hostile_arguments_as_text(command: Command, name: str) -> None:
    given = ALL.replace("\0", "")
    for arguments in (
        [given], [given, given], [given, given, given], ["--" + given], ["--workspace", given],
        ["--args", given, given], ["--older-than", given], ["--request-id", given, given],
    ):  # fmt: skip
        clean(command(name, *arguments))
    clean(command(given))


def on_terminal(folder: Path, *arguments: str | Path) -> str:
    """What a command writes to a terminal of 80 × 24 cells."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, *map(str, arguments)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=folder,
        env=environment,
        start_new_session=True,
    ) as running:
        os.close(slave)
        written = bytearray()
        try:
            while data := os.read(master, 65536):
                written += data
        except OSError as error:  # Linux says so when the last writer has gone.
            assert error.errno == errno.EIO
        finally:
            os.close(master)
        running.wait(timeout=60)
    return written.decode("utf-8").replace("\r\n", "\n")


def test_i13_on_a_terminal_only_our_own_colours_arrive(folder: Path) -> None:
    script = hostile_run(folder)
    seen = on_terminal(folder, "run", script, "--name", "N" + ALL[:70])
    assert AUTHORED.search(seen), "a terminal gets colours"
    run_id = re.findall(r"wr_[0-9a-f]{16}", seen)[0]
    for text in (
        seen,
        *(on_terminal(folder, *each) for each in (("show", run_id), ("log", run_id), ("runs",))),
    ):
        plain = AUTHORED.sub("", text)
        assert foreign(plain) == [], plain
