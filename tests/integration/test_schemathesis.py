"""Schemathesis checks a running server against its OpenAPI document, with valid and invalid requests."""

import copy
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.specs.openapi import checks as openapi_checks

from sless.config import Settings
from sless.http.openapi import document
from sless.http.table import OPERATIONS
from sless.ids import namespace_of
from sless.tokens import issue_token

SUB = "schemathesis"
NAMESPACE = namespace_of(SUB)
ROOT = Path(__file__).resolve().parents[2]
START_SEC = 60
NAMES = {"functions": "hello", "services": "web", "triggers": "tick", "jobs": "job", "fn": "hello"}
REQUEST_ID = "schemathesis-1"
CODE = {"files": {"handler.py": "def handle(event):\n    return event\n"}}
SOAK = "TEST_SOAK_MESSAGES" in os.environ
# Random requests per operation and kind of data. Half as many for services, which share code and schemas with functions.
EXAMPLES = 40 if SOAK else 4
COVERAGE = None if SOAK else 24
"""Requests per operation with values at the bounds of its schema, of some 80: `make soak` sends all. Half as many for services."""
SHARED_WITH_A_PAGE = "/funcs/{ns}/triggers/{name}"
"""GET is a page of the console; the document lists the interface only."""
ADDRESSES = itertools.count(1)
load_all_checks()
# Without positive_data_acceptance, as some rules cannot be expressed in JSON Schema (existing time zones, code that compiles, names not
# yet taken).
CHECKS = [
    not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.negative_data_rejection,
    openapi_checks.missing_required_header,
    openapi_checks.unsupported_method,
    openapi_checks.ignored_auth,
]


@dataclass(frozen=True)
class Running:
    url: str
    headers: dict[str, str]
    session: requests.Session


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    folder = Path(tempfile.mkdtemp(prefix="sl-st-", dir="/tmp"))
    data_dir = folder / "data"
    folders = {"SLESS_DATA_DIR": str(data_dir), "SLESS_RUN_DIR": str(folder / "run")}
    environment = os.environ | folders | {"SLESS_PORT": "0", "SLESS_TRUSTED_PROXIES": "127.0.0.1"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, str(ROOT / "sless.py"), "serve"], env=environment, stdout=log, stderr=log)
    try:
        url = _wait_ready(process, data_dir / "server.json", folder / "log")
        token = issue_token(Settings(auth_mode="local", data_dir=data_dir), SUB, 3600)
        with requests.Session() as session:  # a connection per request takes a third of the time
            session.trust_env = False
            session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
            running = Running(url=url, headers={"Authorization": f"Bearer {token}"}, session=session)
            _fill(running)
            yield running
        assert "Traceback" not in (folder / "log").read_text(), (folder / "log").read_text()[-5000:]
    finally:
        process.terminate()
        process.wait(timeout=60)
        subprocess.run(["rm", "-rf", str(folder)], check=True)


def _wait_ready(process: "subprocess.Popen[bytes]", file: Path, log: Path) -> str:
    deadline = time.monotonic() + START_SEC
    while time.monotonic() < deadline and process.poll() is None:
        if file.exists():
            try:
                url = str(json.loads(file.read_text())["url"])
                if requests.get(url + "/readyz", timeout=5).ok:
                    return url
            except (ValueError, KeyError, requests.RequestException):
                pass
        time.sleep(0.05)
    raise AssertionError(f"the server does not start:\n{log.read_text()[-3000:]}")


def _fill(running: Running) -> None:
    """Create one object of each kind for the generated requests."""
    base = f"{running.url}/v1/namespaces/{NAMESPACE}"

    def post(path: str, body: Any) -> None:
        response = requests.post(f"{base}/{path}", json=body, headers=running.headers, timeout=30)
        assert response.ok, response.text

    for kind in ("functions", "services", "jobs"):
        post(kind, {"name": NAMES[kind], "runtime": "python3.11"})
        post(f"{kind}/{NAMES[kind]}/upload", CODE)
    post("triggers", {"name": "tick", "type": "cron", "function_ref": "hello", "schedule": "0 0 1 1 *"})
    post("triggers", {"name": "open", "type": "http", "function_ref": "hello"})
    for kind in ("functions", "services"):
        # Answers or fails, depending on whether it is built already: a record is kept either way.
        headers = running.headers | {"X-Request-Id": REQUEST_ID}
        requests.post(f"{base}/{kind}/{NAMES[kind]}/invoke", json={}, headers=headers, timeout=60)


def prepared_document() -> dict[str, Any]:
    """The document with existing names and the existing namespace in place of their patterns."""
    prepared = copy.deepcopy(document(OPERATIONS, "http://127.0.0.1"))
    for path, methods in prepared["paths"].items():
        for operation in methods.values():
            # Followed logs do not end by themselves.
            operation["parameters"] = [item for item in operation.get("parameters", ()) if item["name"] != "follow"]
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "ns" and parameter["in"] == "path":
                    parameter["schema"] = {"type": "string", "enum": [NAMESPACE]}
                if parameter["name"] == "name" and parameter["in"] == "path":
                    known = [name for part, name in NAMES.items() if f"/{part}/" in path]
                    parameter["schema"] = {"type": "string", "enum": [*known, "missing"]}
                if parameter["name"] == "id" and "invocations" in path:
                    parameter["schema"] = {"type": "string", "enum": [REQUEST_ID, "missing"]}
                if parameter["name"] == "n":
                    parameter["schema"] = {"type": "integer", "enum": [1, 99]}
    # Deleting the namespace would break all later requests.
    del prepared["paths"]["/v1/namespaces/{ns}"]
    return prepared


def test_the_server_serves_the_tested_document(running: Running) -> None:
    served = requests.get(running.url + "/openapi.json", timeout=10).json()
    assert served == document(OPERATIONS, served["servers"][0]["url"])


@schemathesis.serializer("application/zip")
def raw(context: Any, value: Any) -> Any:
    return value if isinstance(value, bytes) else str(value).encode()


DOCUMENT = prepared_document()
LABELS = [f"{method.upper()} {path}" for path, methods in DOCUMENT["paths"].items() for method in methods]


@pytest.fixture(scope="module")
def schema() -> Any:
    return schemathesis.openapi.from_dict(DOCUMENT)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("label", LABELS)
def test_an_operation_conforms_to_the_document(label: str, schema: Any, running: Running) -> None:
    """Not with `schema.parametrize`, which generates all requests during collection: ten seconds in each worker, also for other tests."""
    operation = schema.find_operation_by_label(label)
    share = 2 if "/services" in label else 1
    most = EXAMPLES // share

    @settings(max_examples=most, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def generated(case: Any, running: Running) -> None:
        check(case, running)

    run = build_operation_test(config=schema.config, operation=operation, test_func=generated, given_kwargs={}, feedback=FeedbackSources())
    if COVERAGE is not None:
        cases = getattr(run, "hypothesis_explicit_examples", [])
        cases[:] = cases[:: -(-len(cases) * share // COVERAGE) or 1]  # evenly from all parameters
    run(running=running)


def check(case: Any, running: Running) -> None:
    # From another address each time: the server slows down refusals of one that keeps failing.
    number = next(ADDRESSES)
    case.headers = {**(case.headers or {}), "X-Forwarded-For": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"}
    response = case.call(base_url=running.url, headers=running.headers, timeout=60, session=running.session)
    # Below /fn, handlers accept any method, even ones that OpenAPI cannot describe.
    other_methods = case.operation.path.startswith("/fn/") or case.operation.path == SHARED_WITH_A_PAGE
    checks = [check for check in CHECKS if not (other_methods and check is openapi_checks.unsupported_method)]
    case.validate_response(response, checks=checks)
