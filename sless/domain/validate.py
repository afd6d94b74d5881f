"""Validates JSON values against `schemas` and words each error as a sentence. The only module that imports jsonschema."""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from sless.domain.answer_schemas import Schema
from sless.domain.schemas import REQUESTS, relatives_of
from sless.errors import Detail

HIDDEN = frozenset({"secret_env", "build_env", "amqp_url"})
"""Fields whose values never appear in messages."""
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
    """All errors, sorted by field, without duplicates."""
    errors = sorted(_validator(component).iter_errors(value), key=lambda error: [str(part) for part in error.absolute_path])
    return list(dict.fromkeys(detail for error in errors for detail in _details_of(error, component)))


def found_of(value: Any) -> str:
    """A value, shortened for a message."""
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 80 else text[:80] + "…"


def suggestion_of(name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, [key for key in known if not known[key].get("readOnly")], n=1)
    return f'; did you mean "{near[0]}"?' if near else ""


@cache
def _validator(component: str) -> Draft202012Validator:
    validator: Draft202012Validator = _Validator(REQUESTS[component])
    return validator


def _pattern(validator: Any, pattern: str, instance: Any, schema: Schema) -> Iterator[ValidationError]:
    """In JSON Schema `$` matches only at the very end; in Python also before a final newline."""
    if isinstance(instance, str) and not re.fullmatch(pattern.removeprefix("^").removesuffix("$"), instance):
        yield ValidationError("pattern")


_Validator: Any = extend(Draft202012Validator, {"pattern": _pattern})  # type: ignore[no-untyped-call]


def _unknown(component: str, path: str, name: str, known: Mapping[str, Any]) -> str:
    """Names the kind that a field belongs to, rather than suggest another spelling."""
    kind, family = relatives_of(component)
    owners = [f"{owner}s" for owner, fields in family.items() if name in fields and not path]
    return f"is a field of {' and '.join(owners)}, not of a {kind}" if owners else "unknown field" + suggestion_of(name, known)


def _details_of(error: ValidationError, component: str) -> Iterator[Detail]:
    path = ".".join(str(part) for part in error.absolute_path)
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
    return words + (f" of at most {schema['maxItems']} items" if "maxItems" in schema else "")


def _join(path: str, name: str) -> str:
    shown = name if len(name) <= 80 else name[:80] + "…"
    return f"{path}.{shown}" if path else shown


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
