"""Validates JSON values against `schemas` and words each error as a sentence. The only module that imports jsonschema."""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from sless.domain.answer_schemas import Schema
from sless.domain.schemas import REQUESTS, relatives_of
from sless.errors import MAX_DETAILS, NUL_MISTAKE, Detail

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError

HIDDEN = frozenset({"secret_env", "build_env", "amqp_url"})
"""Fields whose values never appear in messages."""
EVENT = "event_json"
_SHOWN_CHARS = 80
_TYPES = {
    "object": "an object",
    "array": "an array",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


def mistakes_of(component: str, value: Any) -> list[Detail]:
    """The first MAX_DETAILS errors, sorted by field, without duplicates. A value with too many items or fields is not examined further."""
    try:
        too_many = list(islice(_excess_of(component, REQUESTS[component], value), MAX_DETAILS))
        if too_many:
            return too_many
        found = islice(_validator(component).iter_errors(value), MAX_DETAILS)
        errors = sorted(found, key=lambda error: [str(part) for part in error.absolute_path])
        details = chain.from_iterable(_details_of(error, component) for error in errors)
        kept = list(islice(dict.fromkeys(islice(details, 2 * MAX_DETAILS)), MAX_DETAILS))
        wrong = {detail.field for detail in kept}
        unstorable = (Detail(field=field, message=NUL_MISTAKE) for field in _with_nul(value) if field not in wrong)
        return [*kept, *islice(unstorable, MAX_DETAILS - len(kept))]
    except RecursionError:
        return [Detail(field="", message="expected a JSON object, found one that is nested too deeply")]


def found_of(value: Any) -> str:
    """A value, shortened for a message. Encodes no more of a long one than is shown."""
    if isinstance(value, str):
        value = value[:_SHOWN_CHARS]
    text = ""
    for piece in json.JSONEncoder(ensure_ascii=True).iterencode(value):
        text += piece[: _SHOWN_CHARS + 1]
        if len(text) > _SHOWN_CHARS:
            return text[:_SHOWN_CHARS] + "…"
    return text


def suggestion_of(name: str, known: Mapping[str, Any]) -> str:
    if len(name) > _SHOWN_CHARS:  # comparing costs time in proportion to the length
        return ""
    near = difflib.get_close_matches(name, [key for key in known if not known[key].get("readOnly")], n=1)
    return f'; did you mean "{near[0]}"?' if near else ""


def _excess_of(component: str, schema: Schema, value: Any, path: str = "") -> Iterator[Detail]:
    """Errors about lists and objects with too many entries, which would be slow to validate."""
    match value:
        case list() if len(value) > schema.get("maxItems", len(value)):
            yield Detail(field=path, message=f"expected {expected_of(schema)}, found {len(value)}")
        case dict() if len(value) > schema.get("maxProperties", len(value)):
            yield Detail(field=path, message=f"expected {expected_of(schema)}, found {len(value)}")
        case dict():
            known = schema.get("properties", {})
            if known and not schema.get("additionalProperties", True) and len(value) > len(known) + MAX_DETAILS:
                for name in value.keys() - known.keys():
                    yield Detail(field=_join(path, name), message=_unknown(component, path, name, known))
                return
            for name in known.keys() & value.keys():
                yield from _excess_of(component, known[name], value[name], _join(path, name))


def _with_nul(value: Any, path: str = "") -> Iterator[str]:
    """Fields whose text contains NUL, which PostgreSQL cannot store."""
    match value:
        case str() if "\0" in value:
            yield path
        case dict() | list() if path == EVENT:
            return  # it is stored as JSON text, which escapes NUL
        case list():
            for number, item in enumerate(value):
                yield from _with_nul(item, _join(path, str(number)))
        case dict():
            for name, item in value.items():
                yield from _with_nul(item, _join(path, name))


@cache
def _validator(component: str) -> "Draft202012Validator":
    # Imported here: it takes a tenth of a second, and only requests to change something need it.
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    extended: Any = extend  # has no types
    dialect = extended(Draft202012Validator, {"pattern": _pattern})
    validator: Draft202012Validator = dialect(REQUESTS[component])
    return validator


def _pattern(validator: Any, pattern: str, instance: Any, schema: Schema) -> "Iterator[ValidationError]":
    """In JSON Schema `$` matches only at the very end; in Python also before a final newline."""
    # A text over its maximum length is an error already, and matching it may take a lot of memory.
    if not isinstance(instance, str) or len(instance) > schema.get("maxLength", len(instance)):
        return
    if not re.fullmatch(pattern.removeprefix("^").removesuffix("$"), instance):
        from jsonschema import ValidationError

        yield ValidationError("pattern")


def _unknown(component: str, path: str, name: str, known: Mapping[str, Any]) -> str:
    """Names the kind that a field belongs to, rather than suggest another spelling."""
    kind, family = relatives_of(component)
    owners = [f"{owner}s" for owner, fields in family.items() if name in fields and not path]
    return f"is a field of {' and '.join(owners)}, not of a {kind}" if owners else "unknown field" + suggestion_of(name, known)


def _details_of(error: "ValidationError", component: str) -> Iterator[Detail]:
    path = ".".join(_shortened(str(part)) for part in error.absolute_path)
    value: Any = error.instance
    schema: Schema = dict(error.schema) if isinstance(error.schema, Mapping) else {}
    hidden = bool(HIDDEN.intersection(map(str, error.absolute_path)))
    found = f"found {_kind_of(value)}" if hidden else f"found {found_of(value)}"
    match error.validator:
        case "additionalProperties":
            known = schema.get("properties", {})
            for name in value:
                if name not in known:
                    yield Detail(field=_join(path, name), message=_unknown(component, path, name, known))
        case "required":
            for name in schema["required"]:
                if name not in value:
                    yield Detail(field=_join(path, name), message="is required: expected " + expected_of(schema["properties"][name]))
        case _ if "propertyNames" in map(str, error.absolute_schema_path):
            yield Detail(field=_join(path, value), message=f"invalid name: expected {schema.get('x-expected', 'another form')}")
        case "type" if not error.absolute_path:
            yield Detail(field="", message=f"expected a JSON object, found {_kind_of(value)}")
        case "uniqueItems":
            yield Detail(field=path, message=f"expected distinct items, {found}")
        case _:
            yield Detail(field=path, message=f"expected {expected_of(schema)}, {found}")


def expected_of(schema: Schema) -> str:
    if "x-expected" in schema:
        return str(schema["x-expected"])
    if "const" in schema:
        return found_of(schema["const"])
    if "enum" in schema:
        return "one of " + ", ".join("null" if value is None else str(value) for value in schema["enum"])
    types = schema.get("type", [])
    names = [_TYPES[name] for name in ([types] if isinstance(types, str) else types)]
    words = " or ".join(names) or schema.get("description", "another value")
    if "minimum" in schema:
        words = words.replace("a whole number", f"a whole number from {schema['minimum']} to {schema.get('maximum', '…')}")
    if "maxLength" in schema:
        words = words.replace("text", f"text of {schema.get('minLength', 0)} to {schema['maxLength']} characters")
    words += f" of at most {schema['maxItems']} items" if "maxItems" in schema else ""
    return words + (f" of at most {schema['maxProperties']} fields" if "maxProperties" in schema else "")


def _join(path: str, name: str) -> str:
    return f"{path}.{_shortened(name)}" if path else _shortened(name)


def _shortened(name: str) -> str:
    return name if len(name) <= _SHOWN_CHARS else name[:_SHOWN_CHARS] + "…"


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "an array"
    return "an object"
