"""Rules of setting declarations and of their values (contract 0.2.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from .invalid import InvalidContribution, shown
from .plugins import SettingsField

SettingValue = bool | int | str

_KINDS = ("boolean", "integer", "string")


def validate_fields(fields: object) -> None:
    """Check the ``fields`` of a plugin: unique, consistent declarations, given as a tuple or a list.

    Raises InvalidContribution with a rule that begins with ``settings.``.
    """
    if not isinstance(fields, (tuple, list)):
        raise InvalidContribution("settings.type", f"fields must be a tuple, not {shown(fields)}")
    keys: set[str] = set()
    for field in fields:
        if not isinstance(field, SettingsField):
            raise InvalidContribution("settings.type", f"fields must hold SettingsField, not {shown(field)}")
        _validate_field(field)
        if field.key in keys:
            raise InvalidContribution("settings.unique", f"setting {shown(field.key)} is declared twice")
        keys.add(field.key)


def check_setting(field: SettingsField, value: object) -> SettingValue:
    """Return ``value`` where the declaration admits it.

    Raises InvalidContribution for the wrong kind (a bool is no integer), a number out of range, or a string
    of more than ``max_length`` characters.
    """
    name = f"setting {shown(field.key)}"
    if field.kind == "boolean":
        if not isinstance(value, bool):
            raise InvalidContribution("settings.kind", f"{name} takes true or false, not {shown(value)}")
        return value
    if field.kind == "integer":
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidContribution("settings.kind", f"{name} takes an integer, not {shown(value)}")
        if field.minimum is not None and value < field.minimum:
            raise InvalidContribution(
                "settings.range", f"{name} is at least {field.minimum}, not {shown(value)}"
            )
        if field.maximum is not None and value > field.maximum:
            raise InvalidContribution(
                "settings.range", f"{name} is at most {field.maximum}, not {shown(value)}"
            )
        return value
    if not isinstance(value, str):
        raise InvalidContribution("settings.kind", f"{name} takes a string, not {shown(value)}")
    if len(value) > field.max_length:
        raise InvalidContribution(
            "settings.length", f"{name} has at most {field.max_length} characters, not {len(value)}"
        )
    return value


def settings_snapshot(
    fields: Sequence[SettingsField], values: Mapping[str, object]
) -> Mapping[str, SettingValue]:
    """Every declared setting with its value or default, in a mapping that cannot be changed.

    Raises InvalidContribution for an undeclared key and for a value that ``check_setting`` refuses.
    """
    declared = {field.key: field for field in fields}
    for key in values:
        if key not in declared:
            raise InvalidContribution("settings.key", f"there is no setting {shown(key)}")
    return MappingProxyType(
        {key: check_setting(field, values.get(key, field.default)) for key, field in declared.items()}
    )


def _validate_field(field: SettingsField) -> None:
    if not isinstance(field.key, str) or not field.key:
        raise InvalidContribution(
            "settings.key", f"a setting's key is a non-empty string, not {shown(field.key)}"
        )
    name = f"setting {shown(field.key)}"
    if not isinstance(field.title, str) or not field.title:
        raise InvalidContribution("settings.title", f"{name} needs a title")
    if not isinstance(field.description, str):
        raise InvalidContribution("settings.description", f"{name} has a description that is not a string")
    if not isinstance(field.kind, str) or field.kind not in _KINDS:
        raise InvalidContribution(
            "settings.kind", f"{name} is of kind boolean, integer or string, not {shown(field.kind)}"
        )
    for label, bound in (("minimum", field.minimum), ("maximum", field.maximum)):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int)):
            raise InvalidContribution(
                "settings.range", f"{name}: {label} is an integer or None, not {shown(bound)}"
            )
    if field.minimum is not None and field.maximum is not None and field.minimum > field.maximum:
        raise InvalidContribution("settings.range", f"{name}: minimum is above maximum")
    if isinstance(field.max_length, bool) or not isinstance(field.max_length, int) or field.max_length < 0:
        raise InvalidContribution(
            "settings.length", f"{name}: max_length is an integer from 0, not {shown(field.max_length)}"
        )
    check_setting(field, field.default)
