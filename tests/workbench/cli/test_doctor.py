"""The doctor reports what is there, and a broken part does not break the report."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.workbench.cli.conftest import Command
from workbench.cli import doctor
from workbench.host.store import HostStore


def test_a_working_installation_is_ready(command: Command, folder: Path) -> None:
    result = command("doctor", "--json")
    assert result.status == 0, result.out
    document = result.document
    assert document["ok"] is True
    found = {finding["name"]: finding for finding in document["findings"]}
    for name in ("system", "python", "workbench", "textual", "quickjs-ng", "sqlite", "contract", "engine"):
        assert found[name]["status"] == "ok", name
    assert "1 + 1" in found["engine"]["value"]
    assert found["workspace"]["value"] == str(folder)
    assert found["store"]["status"] == "note"
    assert (found["host store"]["status"], found["files"]["status"]) == ("note", "ok")
    assert list(folder.iterdir()) == []


def test_for_people_it_is_one_aligned_line_a_finding(command: Command) -> None:
    result = command("doctor")
    assert result.status == 0
    assert result.err == ""
    assert result.out.splitlines()[-1] == "Ready."


def test_what_is_missing_is_named_with_how_to_get_it(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_REQUIRED", ("no-such-package",))
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 34, 1))
    result = command("doctor")
    assert result.status == 1
    assert "python -m pip install no-such-package" in result.out
    assert "SQLite 3.40 or later is needed" in result.out
    assert result.out.splitlines()[-1] == "2 problems to solve before workflows can run"


def test_an_examination_that_raises_is_a_finding(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Iterator[doctor.Finding]:
        raise RuntimeError("bad \x1b[31m luck")
        yield  # a generator, as the others

    monkeypatch.setattr(doctor, "_engine", broken)
    result = command("doctor")
    assert result.status == 1
    assert "RuntimeError" in result.out
    assert "bad ␛[31m luck" in result.out


def test_a_wrong_configuration_is_a_finding(command: Command, folder: Path) -> None:
    (folder / "workbench.yaml").write_text("colour: red\n")
    result = command("doctor", "--json")
    assert result.status == 1
    broken = [finding for finding in result.document["findings"] if finding["status"] == "failed"]
    assert [finding["value"] for finding in broken] == ["The configuration is wrong"]


def test_two_reviewers_of_whom_there_can_be_one_only_are_a_finding(command: Command, folder: Path) -> None:
    plugin = (
        "- {name: workflows, use: 'workflows_core.extension:install', config: {enabled: true, reviewers: 2}}"
    )
    for mode, expected in (("terminal", True), ("disabled", True), ("password", False)):
        (folder / "workbench.yaml").write_text(f"auth: {{mode: {mode}}}\nplugins:\n{plugin}\n")
        result = command("doctor", "--json")
        found = {finding["name"]: finding for finding in result.document["findings"]}
        assert ("reviewers" in found) is expected, mode
        if expected:
            assert found["reviewers"]["status"] == "warning"
            assert "Nothing can be reconciled here" in found["reviewers"]["advice"]


def test_a_host_store_that_is_none_is_a_finding(command: Command, folder: Path) -> None:
    state = folder / ".workbench"
    state.mkdir()
    (state / "host.sqlite").write_bytes(b"garbage\n" * 200)
    result = command("doctor")
    assert result.status == 1
    assert re.search(r"^[✗x] host store ", result.out, re.MULTILINE)
    assert f"{state / 'host.sqlite'} is not a readable store" in result.out
    assert "Ready." not in result.out
    assert [path.name for path in state.iterdir()] == ["host.sqlite"]


def test_host_stores_of_this_and_of_a_newer_version(command: Command, folder: Path) -> None:
    path = folder / ".workbench" / "host.sqlite"
    path.parent.mkdir()
    HostStore.open(path).close()
    result = command("doctor", "--json")
    found = {finding["name"]: finding for finding in result.document["findings"]}
    assert (result.status, found["host store"]["status"]) == (0, "ok")
    assert re.fullmatch(re.escape(str(path)) + r", [\d.,]+ KiB", found["host store"]["value"]), "bytes held"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE migrations SET number = 99 WHERE number = 1")
    result = command("doctor")
    assert result.status == 1
    assert f"{path} has schema 99" in result.out


@pytest.mark.parametrize("made", [True, False])
def test_a_full_disk_is_a_finding(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, made: bool
) -> None:
    state = folder / ".workbench"
    if made:
        state.mkdir()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    result = command("doctor")
    assert result.status == 1
    assert f"{state if made else folder}: No space left on device" in result.out
    assert "Free some space" in result.out
    assert result.out.splitlines()[-1] == "1 problem to solve before workflows can run"
    assert list((state if made else folder).iterdir()) == []


def test_files_that_others_could_read_are_a_finding(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_try_file", lambda _: 0o644)
    result = command("doctor")
    assert result.status == 1
    assert "cannot be kept private" in result.out
