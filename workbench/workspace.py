"""The workspace: the folder with ``workbench.yaml`` and ``.workbench/``, and the launch options it gives.

Looking a workspace up writes nothing. ``.workbench/`` is made when something is stored for the first time,
with mode 0700; files in it have mode 0600.
"""

from __future__ import annotations

import os
import stat
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from workflows_core.errors import ConfigurationError, NotFound, StoreFailed, UsageError

from .inert import inert

if TYPE_CHECKING:
    from .host.config import PluginRecord, WorkbenchConfig

STATE_NAME: Final = ".workbench"
CONFIG_NAME: Final = "workbench.yaml"
_DEFAULT_STORAGE: Final = f"{STATE_NAME}/workflows.sqlite"


class Workspace:
    """One workspace. ``root`` is absolute; ``config_path`` is None where there is no ``workbench.yaml``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state_dir = root / STATE_NAME
        self.host_store_path = self.state_dir / "host.sqlite"
        self.secret_path = self.state_dir / "secret"

    @classmethod
    def find(cls, start: Path | None = None, explicit: Path | None = None) -> Workspace:
        """The nearest folder upwards with ``.workbench/`` or ``workbench.yaml``, else ``start`` itself.

        ``explicit`` is taken as it is. Raises UsageError where the folder does not exist.
        """
        given = explicit if explicit is not None else start
        try:
            here = (given if given is not None else Path()).resolve()
        except (OSError, RuntimeError) as error:
            raise UsageError(f"the workspace {inert(str(given))} cannot be found: {error}") from None
        if not here.is_dir():
            raise UsageError(f"the workspace {inert(str(here))} is not a folder")
        if explicit is None:
            for folder in (here, *here.parents):
                if (folder / STATE_NAME).is_dir() or (folder / CONFIG_NAME).is_file():
                    return cls(folder)
        return cls(here)

    @property
    def config_path(self) -> Path | None:
        path = self.root / CONFIG_NAME
        return path if path.exists() or path.is_symlink() else None

    @cached_property
    def config(self) -> WorkbenchConfig:
        """The configuration, read at the first use. Raises ConfigurationError."""
        from .host.config import WorkbenchConfig, load_config

        path = self.config_path
        return WorkbenchConfig() if path is None else load_config(path)

    @property
    def _engine_record(self) -> PluginRecord | None:
        """The workflow plugin's record; None stands for its defaults, which need no import."""
        return None if self.config_path is None else self.config.workflows

    @property
    def storage_path(self) -> Path:
        """The engine's store, as the workflow plugin's ``storage_path`` says. Raises ConfigurationError."""
        record = self._engine_record
        path = _DEFAULT_STORAGE if record is None else record.config.get("storage_path", _DEFAULT_STORAGE)
        if not isinstance(path, str) or not path or "\0" in path:
            raise ConfigurationError("plugins: config.storage_path must be the path of a file")
        return self.root / path

    def without_runs(self) -> NotFound:
        """The error of whoever asks for one run where no run was ever launched."""
        return NotFound(f"there are no runs in {self.root} yet; 'workbench run SCRIPT' launches one")

    @property
    def max_calls(self) -> int:
        """The workflow plugin's ``max_calls``, for checks before anything is loaded."""
        from workflows_core.limits import SETTABLE

        record = self._engine_record
        value = None if record is None else record.config.get("max_calls")
        if isinstance(value, bool) or not isinstance(value, int):
            return SETTABLE["max_calls"].default
        return value

    @property
    def allowed_agents(self) -> tuple[str, ...]:
        """The workflow plugin's allowlist, for checks before anything is loaded."""
        record = self._engine_record
        agents = ["lead_agent"] if record is None else record.config.get("agents", ["lead_agent"])
        return tuple(name for name in agents if isinstance(name, str)) if isinstance(agents, list) else ()

    def make_state_dir(self) -> Path:
        """``.workbench/`` with mode 0700, made where it is missing. Raises StoreFailed."""
        try:
            self.state_dir.mkdir(mode=0o700, exist_ok=True)
            found = self.state_dir.stat()
            if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) != 0o700:
                self.state_dir.chmod(0o700)
        except OSError as error:
            where = inert(str(self.state_dir))
            raise StoreFailed(f"the folder {where} cannot be made: {error.strerror}") from None
        return self.state_dir

    def options(self, *, stubs: Path | None = None, real: bool = False) -> dict[str, Any]:
        """The launch options that a run records: its stub set by content, or real Agents.

        ``stubs`` is relative to the current folder; without it the configuration's ``stubs`` are used, which
        are relative to the workspace. Raises UsageError about ``stubs``, ConfigurationError about the
        configuration's own.
        """
        from extension_api.hashing import canonical_hash

        if real:
            if stubs is not None:
                raise UsageError("a launch on real Agents takes no stub set; leave one of the two out")
            from .agents.registry import available_backends
            from .host.config import no_real_agent

            problem = no_real_agent(self.config, available_backends())
            if problem is not None:
                raise UsageError(problem, code="no_real_agent")
            return {"agents": "real", "label": "real"}
        entries: list[Any] = []
        if stubs is not None:
            entries = read_stub_set(stubs)
            label = stubs.name
        else:
            for name in self.config.stubs:
                try:
                    entries.extend(read_stub_set(self.root / name))
                except UsageError as error:
                    raise ConfigurationError(f"{CONFIG_NAME}: stubs: {error.message}") from None
            label = ", ".join(Path(name).name for name in self.config.stubs) or "no stub set"
        return {"agents": "stub", "stubs": entries, "stubs_hash": canonical_hash(entries), "label": label}


def read_stub_set(path: Path) -> list[dict[str, Any]]:
    """The entries of a stub set file. Raises UsageError in words."""
    from .agents.stubset import STUB_SET_BYTES, parse_stub_set

    shown = inert(str(path))
    try:
        with path.open("rb") as file:
            data = file.read(STUB_SET_BYTES + 1)
    except OSError as error:
        raise UsageError(f"the stub set {shown} cannot be read: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"the stub set {shown} is not a usable path") from None
    return parse_stub_set(data, path.name)
