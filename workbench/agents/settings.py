"""The keys that each backend reads in ``workbench.yaml``, checked when the configuration is read.

``CHECKS`` has one function a backend: it takes every key that the backend knows from the agent's section and
refuses a wrong value with its line. What nobody took is refused by the caller. Nothing here needs a backend, a
network or a secret: a secret stays the reference that the file holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from ..inert import inert
from ..yamltext import Section, json_bytes, kind_of
from .names import COMMAND, DEERFLOW, MANUAL, OPENAI

URL_LENGTH: Final = 2000
PROMPT_BYTES: Final = 64 * 1024
#: JSON that is passed on to a server as it is.
PASSED_BYTES: Final = 16 * 1024
#: Bounds of ``timeout_seconds``: of one whole answer (openai), of one request (deerflow).
OPENAI_SECONDS: Final = (1.0, 600.0, 120.0)
DEERFLOW_SECONDS: Final = (1.0, 120.0, 30.0)

#: Of a command agent: how long one run of its program may take, how long it may take to end when it is asked to
#: (s), and how much it may write to standard output (bytes).
COMMAND_SECONDS: Final = (1.0, 600.0, 300.0)
COMMAND_STOP: Final = (0.0, 5.0, 2.0)
COMMAND_OUTPUT: Final = (1, 1_048_576, 65_536)
ARGUMENTS: Final = 64
ARGUMENT_BYTES: Final = 16 * 1024

#: The highest price of a million tokens; more is taken for a slip, as of a price of one token in place of a million.
PRICE_CEILING: Final = 1_000_000

#: Keys of a chat completion that the backend sets itself, or that would change what its answer is.
_OWN_KEYS: Final = ("model", "messages", "temperature", "max_tokens", "stream", "n", "tools", "functions")


class Price(NamedTuple):
    """What a million tokens cost that are read (``input``) and answered (``output``), in ``currency`` (``USD``)."""

    input: float
    output: float
    currency: str


def price_of(keys: Section) -> Price | None:
    """The agent's ``price``, a mapping of ``input``, ``output`` and ``currency``; None where the key is not there.

    It says what is known before a launch and shapes nothing that an Agent does, so it is no setting of the backend.
    """
    given = keys.section("price", "a price")
    if "price" not in keys:
        return None
    for needed in Price._fields:
        if needed not in given:
            given.document.refuse(given.path, f"needs the key {needed!r}")
    each = {name: given.number(name, 0, low=0, high=PRICE_CEILING) for name in ("input", "output")}
    currency = given.text("currency")
    if not (len(currency) == 3 and currency.isascii() and currency.isalpha() and currency.isupper()):
        given.refuse("currency", "must be three capital letters, such as USD")
    given.done()
    return Price(**each, currency=currency)


def check_openai(keys: Section) -> None:
    """An OpenAI-compatible server: ``base_url`` and ``model``, and what shapes the answer."""
    base_url(keys)
    keys.text("model")
    secret(keys, "api_key")
    _prompt(keys, "system")
    if "temperature" in keys:
        keys.number("temperature", 0, low=0, high=2)
    keys.take("temperature")
    if "max_tokens" in keys:
        _whole(keys, "max_tokens", 1, 1_000_000)
    keys.take("max_tokens")
    low, high, default = OPENAI_SECONDS
    keys.number("timeout_seconds", default, low=low, high=high)
    for name in passed_on(keys, "parameters"):
        if name in _OWN_KEYS:
            keys.refuse("parameters", f"cannot hold {name!r}; the backend sets that itself")


def check_deerflow(keys: Section) -> None:
    """A remote Gateway: where it is, which of its assistants answers, and as whom to log in."""
    base_url(keys)
    keys.text("assistant", "lead_agent")
    if "username" in keys:
        keys.text("username")
    keys.take("username")
    secret(keys, "password")
    if ("username" in keys) != ("password" in keys):
        given, missing = ("username", "password") if "username" in keys else ("password", "username")
        keys.refuse(given, f"needs {missing} beside it; a Gateway without log-in takes neither")
    low, high, default = DEERFLOW_SECONDS
    keys.number("timeout_seconds", default, low=low, high=high)
    for key in ("context", "config"):
        passed_on(keys, key)


def check_command(keys: Section) -> None:
    """A local program: what is executed, what its environment holds, and how much it may take."""
    argv = keys.list("argv", "a program and its arguments")
    if not argv:
        keys.document.refuse(keys.path, "needs argv, a list of the program and its arguments")
    if len(argv) > ARGUMENTS:
        keys.refuse("argv", f"has {len(argv)} parts; admitted are {ARGUMENTS}")
    for index, part in enumerate(argv):
        if not isinstance(part, str) or "\0" in part or not (part or index):
            keys.document.refuse((*keys.path, "argv", index), f"must be text, not {kind_of(part)}")
    size = sum(len(part.encode("utf-8", "replace")) for part in argv)
    if size > ARGUMENT_BYTES:
        keys.refuse("argv", f"takes {size:,} bytes; admitted are {ARGUMENT_BYTES:,}")
    for index, name in enumerate(keys.list("env", "names of environment variables")):
        if not isinstance(name, str) or not variable_name(name):
            keys.document.refuse((*keys.path, "env", index), "must be the name of an environment variable")
    secrets = keys.section("secrets", "names of environment variables with the secrets that they hold")
    for name, reference in secrets.items():
        if not variable_name(name):
            secrets.refuse(name, "is not usable as the name of an environment variable")
        if secret_name(reference) is None:
            secrets.refuse(
                name, "must be {env: NAME} or {keyring: NAME}; this file never holds the secret itself"
            )
    low, high, default = COMMAND_SECONDS
    keys.number("timeout_seconds", default, low=low, high=high)
    low, high, default = COMMAND_STOP
    keys.number("stop_seconds", default, low=low, high=high)
    if "max_output_bytes" in keys:
        _whole(keys, "max_output_bytes", *COMMAND_OUTPUT[:2])
    keys.take("max_output_bytes")


def variable_name(name: str) -> bool:
    """Whether an environment variable can be called so."""
    return name.isascii() and name.isprintable() and "=" not in name and 0 < len(name) <= 200


def check_manual(keys: Section) -> None:
    """A person: ``instructions`` stand above each task that they are asked."""
    _prompt(keys, "instructions")


#: One function a backend; each takes the agent's section.
CHECKS: Final[Mapping[str, Callable[[Section], None]]] = {
    OPENAI: check_openai,
    DEERFLOW: check_deerflow,
    COMMAND: check_command,
    MANUAL: check_manual,
}


def base_url(keys: Section) -> None:
    """``base_url``: http or https, a host, perhaps a path. What it holds is quoted in no message."""
    url = keys.text("base_url")
    problem = url_problem(url)
    if problem is not None:
        keys.refuse("base_url", problem)


def url_problem(url: str) -> str | None:
    """What is wrong with the address of a server, without quoting it, or None."""
    if len(url) > URL_LENGTH or inert(url) != url or any(character.isspace() for character in url):
        return "is not an address: it is too long, or holds spaces or control characters"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "is not an address such as http://127.0.0.1:8000/v1"
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        return "holds credentials; give them in keys of their own as {env: NAME} or {keyring: NAME}"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "must start with http:// or https:// and name a host"
    if parts.query or parts.fragment or "?" in url or "#" in url:
        return "must end with its path, without ? and #"
    return None


def secret(keys: Section, key: str) -> None:
    """A secret, where the key is there: a reference to it, never the secret itself."""
    value = keys.take(key)
    if key in keys and secret_name(value) is None:
        keys.refuse(key, "must be {env: NAME} or {keyring: NAME}; this file never holds the secret itself")


def secret_name(value: Any) -> tuple[str, str] | None:
    """Where a reference points, as (``env`` or ``keyring``, name); None for anything else."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((kind, name),) = value.items()
    if kind not in ("env", "keyring") or not isinstance(name, str) or not name or len(name) > 200:
        return None
    if inert(name) != name or (kind == "env" and ("=" in name or not name.isascii())):
        return None
    return kind, name


def passed_on(keys: Section, key: str) -> Mapping[str, Any]:
    """A mapping of JSON values that goes to the server as it is; empty where the key is not there."""
    section = keys.section(key, "a mapping that is passed on")
    value = dict(section.items())
    size = len(json_bytes(keys.document, section.path, value))
    if size > PASSED_BYTES:
        keys.refuse(key, f"takes {size:,} bytes as JSON; admitted are {PASSED_BYTES:,}")
    for name, part in value.items():
        if _refers(part):
            section.refuse(name, "cannot refer to a secret: what is passed on stands in the records")
    return value


def _refers(value: Any) -> bool:
    if isinstance(value, dict):
        return secret_name(value) is not None or any(_refers(part) for part in value.values())
    return isinstance(value, list) and any(_refers(part) for part in value)


def _prompt(keys: Section, key: str) -> None:
    if key not in keys:
        keys.take(key)
        return
    text = keys.text(key)
    size = len(json_bytes(keys.document, (*keys.path, key), text))
    if size > PROMPT_BYTES:
        keys.refuse(key, f"takes {size:,} bytes as JSON; admitted are {PROMPT_BYTES:,}")


def _whole(keys: Section, key: str, low: int, high: int) -> None:
    value = keys.take(key)
    if isinstance(value, bool) or not isinstance(value, int):
        keys.refuse(key, f"must be a whole number, not {kind_of(value)}")
    if not low <= value <= high:
        keys.refuse(key, f"is {value:,}; admitted are {low:,} to {high:,}")
