"""Importing an extension's modules anew, and telling the types of the old ones apart.

A package is everything under the first name of ``use``. What an extension imports from elsewhere stays as it
is. The old modules go on working for whoever holds their objects.
"""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Collection
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

from extension_api.state import ExtensionData, stored_types

#: Packages that are part of the workbench itself. A process holds each of them once.
OWN_PACKAGES: Final = frozenset({"workbench", "workflows_core", "extension_api", "deerflow_extension_api"})


def package_of(use: str) -> str:
    """The first name of the module in ``use``."""
    return use.partition(":")[0].partition(".")[0]


def reloadable(use: str) -> bool:
    """Whether the modules behind ``use`` can be imported anew while the program runs."""
    package = package_of(use)
    return package not in OWN_PACKAGES and package not in sys.stdlib_module_names


class ModuleSwap:
    """The modules of some packages, taken out of ``sys.modules``. ``taken`` holds them by name."""

    def __init__(self, packages: Collection[str]) -> None:
        self._packages = frozenset(packages)
        self.taken: dict[str, ModuleType] = {}
        self._out = False

    def take(self) -> None:
        """Let the next import read the files. Cached byte code is dropped: its stamp counts whole seconds."""
        self._out = True
        for name in self._loaded():
            module = sys.modules.pop(name)
            self.taken[name] = module
            cached = getattr(getattr(module, "__spec__", None), "cached", None)
            if isinstance(cached, str):
                try:
                    Path(cached).unlink(missing_ok=True)
                except OSError:
                    pass  # a folder that cannot be written has no byte code that was just made
        importlib.invalidate_caches()
        linecache.checkcache()

    def restore(self) -> None:
        """Put the old modules back in place of whatever was imported since. Nothing where none were taken."""
        if not self._out:
            return
        self._out = False
        for name in self._loaded():
            del sys.modules[name]
        sys.modules.update(self.taken)

    def defined(self, kind: type[Any]) -> bool:
        """Whether a type was made by one of the modules that were taken."""
        module = self.taken.get(kind.__module__)
        if module is None:
            return False
        found: object = module
        for part in kind.__qualname__.split("."):
            found = vars(found).get(part) if isinstance(found, ModuleType | type) else None
        if found is kind:
            return True
        # Made inside a function, it cannot be found by its name; its methods say where they come from.
        return any(
            isinstance(member, FunctionType) and member.__globals__ is module.__dict__
            for member in vars(kind).values()
        )

    def _loaded(self) -> list[str]:
        return [name for name in sys.modules if name.partition(".")[0] in self._packages]


def drop_values(store: ExtensionData, swap: ModuleSwap) -> int:
    """Remove the values whose type an old module made; how many there were."""
    old = [kind for kind in stored_types(store) if swap.defined(kind)]
    for kind in old:
        store.remove(kind)
    return len(old)
