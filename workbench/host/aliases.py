"""``deerflow_extension_api`` for extensions that were written for the public contract.

Where no such distribution is installed, the name and its submodules resolve to ``extension_api``, as the same
module objects. Where one is installed it stays what it is.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import pkgutil
import sys
from typing import Final, NamedTuple

import extension_api

PUBLIC_NAME: Final = "deerflow_extension_api"
DISTRIBUTION: Final = "deerflow-extension-api"


class Contract(NamedTuple):
    """Which package strangers' extensions import: its version, and whether it is a distribution of its own."""

    version: str
    installed: bool


def provide_contract() -> Contract:
    """Make the public name importable and say what it resolves to. Calling it again changes nothing."""
    if sys.modules.get(PUBLIC_NAME) is extension_api:
        return Contract(extension_api.API_VERSION, installed=False)
    if PUBLIC_NAME in sys.modules or importlib.util.find_spec(PUBLIC_NAME) is not None:
        return Contract(_installed_version(), installed=True)
    prefix = f"{extension_api.__name__}."
    for found in pkgutil.iter_modules(extension_api.__path__):
        module = importlib.import_module(prefix + found.name)
        sys.modules[f"{PUBLIC_NAME}.{found.name}"] = module
    sys.modules[PUBLIC_NAME] = extension_api
    return Contract(extension_api.API_VERSION, installed=False)


def _installed_version() -> str:
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        module = sys.modules.get(PUBLIC_NAME) or importlib.import_module(PUBLIC_NAME)
        return str(getattr(module, "API_VERSION", "unknown"))
