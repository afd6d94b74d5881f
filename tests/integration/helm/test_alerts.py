"""Alert rules and dashboard: every expression is valid and names only metrics that the server has; every alert fires when it should."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from sless import metrics
from tests.integration.helm.chart import CHART, VALUES, render
from tests.services import unavailable
from tests.services.product import Product

ALERTS = Path(CHART) / "files" / "alerts.yaml"
DASHBOARD = Path(CHART) / "files" / "dashboard.json"
RULES = {rule["alert"]: rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]}
PANELS = json.loads(DASHBOARD.read_text())["panels"]
EXPRESSIONS = [rule["expr"] for rule in RULES.values()] + [target["expr"] for panel in PANELS for target in panel["targets"]]
_SELECTOR = re.compile(r"\b(sless_[a-z_]+)(?:\{([^}]*)\})?")
_BY = re.compile(r"\bby \(([^)]*)\)")

# Alert → series that make it fire: `A+BxN` is A, A+B, A+2B … per minute.
FIRING: dict[str, list[tuple[str, str]]] = {
    "SlessAbsent": [],
    "SlessServerErrors": [
        ('sless_http_requests_total{part="api",status="500"}', "0+30x90"),
        ('sless_http_requests_total{part="api",status="200"}', "0+300x90"),
    ],
    "SlessReconcileErrors": [('sless_reconcile_errors_total{loop="builds"}', "0+6x90")],
    "SlessBuildsFail": [('sless_builds_total{result="failed"}', "0+1x90"), ('sless_builds_total{result="ready"}', "3+0x90")],
    "SlessQueueGrows": [('sless_queue_depth{queue="runs"}', "2000+0x90")],
    "SlessCallsRefused": [('sless_overloaded_calls_total{limit="workload"}', "0+120x90")],
    "SlessCallsWait": [("sless_waiting_calls", "600+0x90")],
    "SlessCallsFail": [
        ('sless_invocations_total{kind="function",trigger="http",status="failed"}', "0+120x90"),
        ('sless_invocations_total{kind="function",trigger="http",status="succeeded"}', "0+60x90"),
    ],
    "SlessCronLate": [('sless_cron_delay_seconds_bucket{le="10"}', "0+0x90"), ('sless_cron_delay_seconds_bucket{le="30"}', "0+9x90"),
                      ('sless_cron_delay_seconds_bucket{le="+Inf"}', "0+9x90")],
    "SlessCronMissed": [('sless_cron_firings_total{result="missed"}', "0+1x90")],
    "SlessHistoryDropped": [('sless_history_dropped_total{kind="calls"}', "0+5x90")],
    "SlessCallbacksFail": [('sless_callbacks_total{result="failed"}', "0+1x90")],
    "SlessSignInsFail": [("sless_sign_in_failures_total", "0+300x90")],
    "SlessCodeUnchecked": [('sless_code_checks_total{check="llm",result="unchecked"}', "0+1x90")],
}  # fmt: skip


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        unavailable("promtool", "prometheus")
    return found


def names_of(text: str) -> Iterator[str]:
    """Names of the series in an exposition, including those of metrics that have counted nothing yet."""
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            yield from [name] if kind != "histogram" else [f"{name}_bucket", f"{name}_count", f"{name}_sum"]


def labels_by_family() -> dict[str, set[str]]:
    """Label names by family, as declared; by hand for the families whose collector declares none."""
    found: dict[str, set[str]] = {"sless_http_requests_total": {"part", "status"}, "sless_invocations_total": {"kind", "trigger", "status"}}
    for value in vars(metrics).values():
        if hasattr(value, "_labelnames"):
            for family in value.describe():
                suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}.get(family.type, [""])
                for suffix in suffixes:
                    found[family.name + suffix] = set(value._labelnames) | ({"le"} if suffix == "_bucket" else set())
    found["sless_invocation_duration_seconds_bucket"] = {"le"}
    return found


def test_every_expression_names_metrics_of_a_running_server(product: Product) -> None:
    exposed = set(names_of(requests.get(f"{product.url}/metrics", timeout=30).text))
    labels = labels_by_family()
    assert len(EXPRESSIONS) > 25
    for expression in EXPRESSIONS:
        used = _SELECTOR.findall(expression)
        assert used, expression
        for name, matchers in used:
            assert name in exposed, f"{name} is not in /metrics: {expression}"
            matched = {part.split("=")[0].rstrip("!~") for part in matchers.split(",") if part}
            assert matched <= labels[name], expression
        grouped = {name.strip() for part in _BY.findall(expression) for name in part.split(",")}
        assert grouped <= set().union(*(labels[name] for name, _ in used)), expression


def test_every_label_value_in_an_expression_occurs_in_the_source() -> None:
    source = "".join(path.read_text() for path in (Path(CHART).parents[1] / "sless").rglob("*.py"))
    for expression in EXPRESSIONS:
        for _, matchers in _SELECTOR.findall(expression):
            for value in re.findall(r'"([a-z|_]+)"', matchers):
                for word in value.split("|"):
                    assert f'"{word}"' in source, expression


def test_rules_are_valid_and_complete(promtool: str) -> None:
    done = subprocess.run([promtool, "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert RULES.keys() == FIRING.keys()
    for rule in RULES.values():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"] and rule["annotations"]["description"]


def test_each_alert_fires_when_it_should_and_not_before(promtool: str, tmp_path: Path) -> None:
    quiet = [{"series": 'sless_build_info{version="1"}', "values": "1x90"}]
    tests: list[dict[str, Any]] = []
    for alert, series in FIRING.items():
        given = [{"series": name, "values": values} for name, values in series] + ([] if alert == "SlessAbsent" else quiet)
        tests.append(_case(given, f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})', [{"labels": "{}", "value": 1}]))
    tests.append(_case(quiet, 'count(ALERTS{alertstate="firing"})', []))
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _case(series: list[dict[str, str]], expression: str, expected: list[dict[str, Any]]) -> dict[str, Any]:
    expectation = {"expr": expression, "eval_time": "90m", "exp_samples": expected}
    return {"interval": "1m", "input_series": series, "promql_expr_test": [expectation]}


def test_the_chart_has_rules_and_dashboard() -> None:
    objects = {item["kind"]: item for item in render(VALUES["full"]) if item["metadata"]["name"] in ("sless", "sless-dashboard")}
    rule = objects["PrometheusRule"]
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    assert rule["spec"] == yaml.safe_load(ALERTS.read_text())
    (found,) = [item for item in render(VALUES["full"]) if item["kind"] == "ConfigMap" and item["metadata"]["name"].endswith("-dashboard")]
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["sless.json"])["panels"] == PANELS
