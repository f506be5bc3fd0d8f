"""Demand 11: every command's output, human and JSON, with the whole hostile sample in a run; exports and logs too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.invariants.test_terminal import yaml
from tests.workbench.cli.conftest import Command, Result, command, folder, own_environment  # noqa: F401 (fixtures)
from tests.workbench.tui.hostile import PAYLOADS
from tests.workbench.tui.stream import foreign
from workflows_core.journal.bundle import open_bundle

#: What has a form in JSON and in UTF-8; a lone surrogate has none.
TEXTS = [text for text in PAYLOADS if not any("\ud800" <= char <= "\udfff" for char in text)]
#: Bytes of a log message as JSON, of which a script may write 160.
_A_LINE = 150


def packed() -> list[str]:
    """The payloads in as few log messages as they fit into."""
    lines = [""]
    for text in TEXTS:
        if len(json.dumps(lines[-1] + text)) > _A_LINE:
            lines.append("")
        lines[-1] += f"{text} "
    return lines


LINES = packed()
#: A script may log twenty times; all of it stands in a task, an output and errors.
LOGGED = [*LINES[:10], *LINES[-10:]]
LINE_ENDS = "\n\r\u2028\u2029"


def judged(result: Result) -> Result:
    assert foreign(result.out, screens=False) == [], result.out[:2_000]
    assert foreign(result.err, screens=False) == [], result.err[:2_000]
    return result


def hostile(folder: Path) -> Path:  # noqa: F811 (the fixture's value)
    """A script that logs, asks for, gets and throws every payload."""
    script = folder / "hostile.workflow.js"
    script.write_text(
        f"// {''.join(text for text in TEXTS[::20] if not set(text) & set(LINE_ENDS))}\n"
        "for (const line of args.logged) log(line);\n"
        "const ok = await agent({stepId: 'ok', agentRef: 'lead_agent', task: args});\n"
        "try { await agent({stepId: 'fails', agentRef: 'lead_agent', task: ok.output}); } catch (error) {}\n"
        "throw new Error(ok.output.texts.join('').slice(0, 1000));\n",
        "utf-8",
        newline="",
    )
    texts = ", ".join(map(yaml, TEXTS))
    stubs = f"- {{step: ok, reply: {{texts: [{texts}]}}}}\n- {{step: fails, fail: {yaml(''.join(TEXTS)[:1_000])}}}\n"
    (folder / "hostile.stubs.yaml").write_text(stubs, "utf-8")
    (folder / "args.json").write_text(json.dumps({"logged": LOGGED}), "utf-8")
    return script


@pytest.fixture
def run_id(command: Command, folder: Path) -> str:  # noqa: F811 (fixtures)
    name = "".join(TEXTS[::9])[:60]
    assert judged(command("run", hostile(folder), "--name", name, "--args", "@args.json")).status == 1
    document = command("runs", "--json").document
    return str(document["runs"][0]["run_id"])


def test_i13_what_is_read_of_a_run(command: Command, folder: Path, run_id: str) -> None:  # noqa: F811
    bundle = folder / "out.wfrun"
    other = folder / "other.workflow.js"
    other.write_text(f"log({json.dumps(TEXTS[0])});\nreturn 1;\n")
    for arguments in (
        ("runs",), ("show", run_id), ("log", run_id), ("step", run_id, "ok"), ("step", run_id, "fails"),
        ("compare", run_id, run_id), ("recover", run_id, "--preview"), ("replay", run_id, "--headless"),
        ("replay", run_id, "--headless", "--script", other), ("replay", run_id, "--headless", "--at", "3"),
        ("coverage", run_id), ("explore", "orders", run_id), ("explore", "crashes", run_id), ("doctor",),
        ("extension", "list"), ("sessions",), ("library",), ("save", folder / "hostile.workflow.js", "--name", "x"),
        ("library",), ("check", folder / "hostile.workflow.js"), ("cancel", run_id),
        ("export", run_id, "-o", bundle), ("export", run_id, "-o", folder / "r.wfrun", "--redact"),
        ("export-test", run_id, "-o", folder / "test_x.py"), ("stubs", run_id, "-o", folder / "x.stubs.yaml"),
        ("replay", bundle, "--headless"), ("recover", bundle, "--preview"), ("coverage", bundle),
        ("resume", run_id, "ok"), ("artifact", run_id, "ok", "-o", folder / "a"), ("notices",),
    ):  # fmt: skip
        said = judged(command(*arguments))
        if arguments[0] in ("stubs", "export-test", "export"):
            assert said.status == 0, said.err
        if arguments[0] not in ("export", "export-test", "stubs", "save", "artifact"):
            said = judged(command(*arguments, "--json"))
            assert said.out.isascii()
    log = command("log", run_id, "--json").document["log"]
    assert [line["message"] for line in log] == LOGGED
    assert command("step", run_id, "ok", "--json").document["output"] == {"texts": TEXTS}
    # What is written for programs and editors to read holds no byte that acts when it is printed.
    for path in (folder / "test_x.py", folder / "x.stubs.yaml", *(folder / ".workbench").glob("*.log")):
        assert foreign(path.read_bytes(), screens=False) == [], path.name
    assert open_bundle(bundle).record.run_id == run_id
    judged(command("delete", run_id))
