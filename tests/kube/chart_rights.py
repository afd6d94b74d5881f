"""The RBAC rules that the chart grants sless: the stand-in enforces them, and tests compare them with the requests made."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import helm_python
import yaml

CHART = Path(__file__).resolve().parents[2] / "helm" / "sless"
Rule = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rights:
    """`local` by namespace; `writable`: patterns of the namespaces that the admission policy
    lets the account change; empty: all."""

    cluster: list[Rule] = field(default_factory=list)
    local: dict[str, list[Rule]] = field(default_factory=dict)
    writable: list[str] = field(default_factory=list)

    def all(self) -> "set[tuple[str, str, str]]":
        """(verb, group, resource) of each right."""
        rules = [*self.cluster, *(rule for rules in self.local.values() for rule in rules)]
        return {
            (verb, group, resource)
            for rule in rules
            for verb in rule["verbs"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        }


def rights_of_chart(namespace: str, values: "dict[str, Any]") -> Rights:
    """Of the chart rendered with `values`, released into `namespace`."""
    rights = Rights()
    with helm_python.Chart.load(CHART) as chart:
        files = chart.render(values=values, name="sless", namespace=namespace)
    texts = [text for path, text in sorted(files.items()) if not path.endswith("NOTES.txt")]
    for item in (item for text in texts for item in yaml.safe_load_all(text) if item):
        match item["kind"]:
            case "ClusterRole":
                rights.cluster.extend(item["rules"])
            case "ValidatingAdmissionPolicy":
                rights.writable.extend(_writable_of(item))
            case "Role":
                rights.local.setdefault(item["metadata"].get("namespace", namespace), []).extend(item["rules"])
    return rights


def _writable_of(policy: "dict[str, Any]") -> list[str]:
    """Patterns, from the one form of expression that the chart uses; another one is an error."""
    (validation,) = policy["spec"]["validations"]
    form = r"variables\.place\.startsWith\('([-a-z]+)'\) \|\| variables\.place in \[('[-a-z0-9]+'(?:, '[-a-z0-9]+')*)\]"
    found = re.fullmatch(form, validation["expression"])
    assert found, validation["expression"]
    (place,) = policy["spec"]["variables"]
    assert place == {"name": "place", "expression": "request.resource.resource == 'namespaces' ? request.name : request.namespace"}
    return [f"{found[1]}*", *re.findall(r"'([^']+)'", found[2])]
