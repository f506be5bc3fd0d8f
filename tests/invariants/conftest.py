"""The command line of the tests, for the invariants that commands keep."""

from __future__ import annotations

from tests.workbench.cli.conftest import command, folder, own_environment

__all__ = ["command", "folder", "own_environment"]
