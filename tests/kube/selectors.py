"""Label and field selectors."""

import re
from collections.abc import Callable
from typing import Any

from tests.kube.errors import Refused

Matches = Callable[[dict[str, Any]], bool]
_SET = re.compile(r"^\s*(?P<key>[^\s!=,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^)]*)\)\s*$")
_EQUAL = re.compile(r"^\s*(?P<key>[^\s!=,()]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s,()]*)\s*$")
_NAME = re.compile(r"^\s*(?P<not>!?)\s*(?P<key>[^\s!=,()]+)\s*$")
FIELDS = {
    "*": ("metadata.name", "metadata.namespace"),
    "Pod": ("spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "status.phase", "status.podIP"),
    "Event": ("involvedObject.kind", "involvedObject.name", "involvedObject.namespace", "involvedObject.uid", "reason", "type"),
    "Secret": ("type",),
    "Namespace": ("status.phase",),
    "Job": ("status.successful",),
    "ReplicaSet": ("status.replicas",),
}


def labels_match(text: str) -> Matches:
    """Raises Refused for an invalid selector."""
    rules = [_rule(part) for part in _split(text)]
    return lambda item: all(rule(item.get("metadata", {}).get("labels") or {}) for rule in rules)


def _split(text: str) -> list[str]:
    parts = re.split(r",(?![^()]*\))", text)
    return [part for part in parts if part.strip()]


def _rule(part: str) -> Callable[[dict[str, str]], bool]:
    if found := _SET.match(part):
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        wanted = found["op"] == "in"
        return lambda labels: (labels.get(key) in values) if wanted else (labels.get(key) not in values)
    if found := _EQUAL.match(part):
        key, value, equal = found["key"], found["value"], found["op"] != "!="
        return lambda labels: (labels.get(key) == value) == equal
    if found := _NAME.match(part):
        key, wanted = found["key"], not found["not"]
        return lambda labels: (key in labels) == wanted
    raise Refused(400, f'unable to parse requirement: found "{part}"')


def fields_match(kind: str, text: str) -> Matches:
    rules = []
    for part in _split(text):
        found = _EQUAL.match(part)
        if not found:
            raise Refused(400, f'invalid selector: "{text}"; can\'t understand "{part}"')
        if found["key"] not in (*FIELDS["*"], *FIELDS.get(kind, ())):
            raise Refused(400, f"field label not supported: {found['key']}")
        rules.append((found["key"].split("."), found["value"], found["op"] != "!="))
    return lambda item: all((_field(item, path) == value) == equal for path, value, equal in rules)


def _field(item: Any, path: list[str]) -> str:
    for name in path:
        item = (item or {}).get(name)
    return "" if item is None else str(item)


def selector_matches(selector: dict[str, Any] | None, labels: dict[str, str]) -> bool:
    """A LabelSelector of an object's spec; None matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for rule in selector.get("matchExpressions") or []:
        value, values = labels.get(rule["key"]), rule.get("values") or []
        match rule["operator"]:
            case "In" if value not in values:
                return False
            case "NotIn" if value in values:
                return False
            case "Exists" if value is None:
                return False
            case "DoesNotExist" if value is not None:
                return False
    return True
