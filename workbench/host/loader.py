"""Loads the extensions of ``plugins:``, one record after the other, and keeps what fails apart.

Importing this module makes ``deerflow_extension_api`` importable (see ``aliases``).
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from extension_api.invalid import InvalidContribution
from extension_api.version import API_VERSION, NAME_ATTRIBUTE, IncompatibleExtension, check_api_marker
from workflows_core.errors import ConfigurationError, WorkflowError

from ..inert import inert
from ..workspace import CONFIG_NAME
from .aliases import Contract, provide_contract
from .config import PluginRecord
from .diagnostics import Diagnostics, name_of
from .registry import Collector, ExtensionSnapshot, RecordRegistry

HOST: Final = "host"

CONTRACT: Final[Contract] = provide_contract()


@dataclass(frozen=True)
class LoadedRecord:
    """What became of one record. ``marker`` is the contract version it declares, None without a marker."""

    record: PluginRecord
    index: int
    outcome: Literal["loaded", "disabled", "failed"]
    message: str = ""
    marker: str | None = None
    declared_name: str | None = None


@dataclass(frozen=True)
class LoadResult:
    """The snapshot of everything that loaded, and the fate of each record in its order."""

    snapshot: ExtensionSnapshot
    records: tuple[LoadedRecord, ...]
    contract: Contract


class LoadFailed(Exception):
    """One record cannot load: ``rule`` is what it breaks, ``str()`` the sentence."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule


def load_extensions(records: Sequence[PluginRecord], root: Path, diagnostics: Diagnostics) -> LoadResult:
    """Load every enabled record in order; a module is also looked for in the workspace at ``root``.

    A failure is a diagnostic and the next record is tried. Raises ConfigurationError for the first record
    that is required and cannot load.
    """
    collector = Collector()
    results: list[LoadedRecord] = []
    for index, record in enumerate(records):
        if not record.enabled:
            results.append(LoadedRecord(record, index, "disabled"))
            continue
        before = collector.lengths()
        try:
            results.append(_load_or_stop(record, index, root, collector))
        except LoadFailed as failure:
            collector.roll_back(before)
            diagnostics.add("error", record.use, str(failure), failure.__cause__)
            if record.fatal:
                raise ConfigurationError(
                    f"{CONFIG_NAME}: plugins[{index}] ({inert(record.use)}) cannot load: {inert(str(failure))}"
                ) from failure.__cause__
            results.append(LoadedRecord(record, index, "failed", str(failure)))
    enabled = [result for result in results if result.outcome != "disabled"]
    loaded = [result.record.name for result in enabled if result.outcome == "loaded"]
    names = ", ".join(loaded) or "none"
    diagnostics.add("info", HOST, f"extensions: loaded {len(loaded)} of {len(enabled)} ({names})")
    if CONTRACT.installed:
        diagnostics.add(
            "info",
            HOST,
            f"deerflow-extension-api {CONTRACT.version} is installed and used where it is imported",
        )
    return LoadResult(collector.snapshot(), tuple(results), CONTRACT)


def _load_or_stop(record: PluginRecord, index: int, root: Path, collector: Collector) -> LoadedRecord:
    try:
        return load_record(record, index, root, collector)
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        # Not contained: an extension that ends the program is not one to go on with.
        raise ConfigurationError(
            f"{CONFIG_NAME}: plugins[{index}] ({inert(record.use)}) raised {type(error).__name__} while it loaded"
        ) from error


def load_record(record: PluginRecord, index: int, root: Path, collector: Collector) -> LoadedRecord:
    """Load one record into ``collector``, which the caller rolls back after a LoadFailed.

    Only Exception is contained.
    """
    install = _resolve(record, root)
    try:
        marker = check_api_marker(install, API_VERSION)
    except IncompatibleExtension as error:
        raise LoadFailed("marker", error.message) from None
    registry = RecordRegistry(collector, record.use, index)
    try:
        result = install(registry, copy.deepcopy(dict(record.config)))
        if inspect.iscoroutine(result):
            result.close()
            raise LoadFailed("install.async", "install is asynchronous; it must be a plain function")
    except LoadFailed:
        raise
    except WorkflowError as error:
        raise LoadFailed("install.raised", error.message) from error
    except Exception as error:
        rule = error.rule if isinstance(error, InvalidContribution) else "install.raised"
        raise LoadFailed(rule, f"install raised {name_of(error)}") from error
    finally:
        registry.seal()
    return LoadedRecord(record, index, "loaded", marker=marker, declared_name=_declared_name(install))


def _resolve(record: PluginRecord, root: Path) -> Any:
    module_name, _, attribute = record.use.partition(":")
    _make_importable(module_name, record, root)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and (
            error.name is not None and (module_name + ".").startswith(error.name + ".")
        )
        if missing:
            raise LoadFailed(
                "use.module", f"there is no module {module_name}; is the extension installed?"
            ) from None
        raise LoadFailed("use.import", f"importing {module_name} raised {name_of(error)}") from error
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except Exception as error:
            raise LoadFailed(
                "use.attribute", f"{module_name} has no {attribute} ({type(error).__name__})"
            ) from error
    if not callable(found):
        raise LoadFailed("use.callable", f"{record.use} is not callable")
    return found


def _make_importable(module_name: str, record: PluginRecord, root: Path) -> None:
    """Let a module be found in the folder that ``package`` names, or in the workspace, after all others."""
    package = root / record.package if record.package is not None else None
    places = [package] if package is not None and package.is_dir() else []
    top = module_name.partition(".")[0]
    if top not in sys.modules and importlib.util.find_spec(top) is None:  # never shadows what is installed
        places.append(root)
    for place in places:
        if str(place) not in sys.path:
            sys.path.append(str(place))
            importlib.invalidate_caches()


def _declared_name(install: Any) -> str | None:
    try:
        name = getattr(install, NAME_ATTRIBUTE, None)
    except Exception:  # noqa: BLE001 - the name is decoration; a getter that raises has none
        return None
    return name if isinstance(name, str) else None
