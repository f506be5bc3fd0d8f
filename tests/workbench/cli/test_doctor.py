"""The doctor reports what is there, and a broken part does not break the report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workbench.cli.conftest import Command
from workbench.cli import doctor


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
    assert not (folder / ".workbench").exists()


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
