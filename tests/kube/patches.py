"""JSON patch, merge patch and strategic merge patch."""

import base64
import copy
from typing import Any

from tests.kube.errors import Refused
from tests.kube.schemas import child_of, items_of, merge_key_of


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def patched(how: str, item: Any, patch: Any, schema: dict[str, Any]) -> Any:
    match how:
        case "json":
            return _json_patched(item, patch)
        case "merge":
            return _merged(item, patch)
    return _strategic(item, patch, schema)


def _merged(item: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(item) if isinstance(item, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _strategic(item: Any, patch: Any, schema: dict[str, Any]) -> Any:
    if isinstance(patch, dict):
        patch = dict(patch)
        if patch.pop("$patch", None) == "replace":
            return patch
        result = dict(item) if isinstance(item, dict) else {}
        for key, value in patch.items():
            if key.startswith(("$setElementOrder/", "$retainKeys")):
                continue
            if value is None:
                result.pop(key, None)
            else:
                result[key] = _strategic(result.get(key), value, child_of(schema, key))
        return result
    key = merge_key_of(schema) if isinstance(patch, list) else None
    if key is None or not isinstance(item, list):
        return [one for one in patch if not (isinstance(one, dict) and "$patch" in one)] if isinstance(patch, list) else patch
    if not key:
        return [*item, *(one for one in patch if one not in item)]
    return _strategic_list(item, patch, key, schema)


def _strategic_list(item: list[Any], patch: list[Any], key: str, schema: dict[str, Any]) -> list[Any]:
    result, inner = list(item), items_of(schema)
    for entry in patch:
        index = next((number for number, present in enumerate(result) if present.get(key) == entry.get(key)), None)
        if entry.get("$patch") == "delete":
            if index is not None:
                del result[index]
        elif index is None:
            result.append(entry)
        else:
            result[index] = _strategic(result[index], entry, inner)
    return result


def _json_patched(item: Any, patch: Any) -> Any:
    if not isinstance(patch, list):
        raise Refused(400, "json patch: expected a list of operations")
    document = {"": item}
    for step in patch:
        try:
            _step(document, step)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise Refused(422, f"the server rejected our request due to an error in our request: {step}: {error!r}") from None
    return document[""]


def _parts(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")]


def _value_at(document: Any, parts: list[str]) -> Any:
    for part in parts:
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def _step(document: Any, step: dict[str, Any]) -> None:
    parts = _parts(step["path"])
    match step["op"]:
        case "add" | "replace":
            _put(document, parts, step["value"], insert=step["op"] == "add")
        case "remove":
            _remove(document, parts)
        case "move":
            _put(document, parts, _remove(document, _parts(step["from"])), insert=True)
        case "copy":
            _put(document, parts, copy.deepcopy(_value_at(document, _parts(step["from"]))), insert=True)
        case "test":
            if _value_at(document, parts) != step["value"]:
                raise ValueError("testing path failed")
        case other:
            raise ValueError(f"unknown operation {other}")


def _put(document: Any, parts: list[str], value: Any, *, insert: bool) -> None:
    target, last = _value_at(document, parts[:-1]), parts[-1]
    if isinstance(target, list):
        if last == "-":
            target.append(value)
        elif insert:
            target.insert(int(last), value)
        else:
            target[int(last)] = value
        return
    if not insert and last not in target:
        raise KeyError(last)
    target[last] = value


def _remove(document: Any, parts: list[str]) -> Any:
    target, last = _value_at(document, parts[:-1]), parts[-1]
    return target.pop(int(last)) if isinstance(target, list) else target.pop(last)
