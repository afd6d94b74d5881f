"""`sless import-operator`: objects of the earlier operator in a cluster, their code in a real S3, and a running server."""

import io
import json
import tarfile
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from sless.ids import namespace_of
from tests.services.product import Product, Tenant, zip_of
from tests.services.s3 import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server

pytestmark = [pytest.mark.timeout(180)]
SUB = "alice"
NAMESPACE = namespace_of(SUB)
HANDLER = "def handle(event, context):\n    return {'hello': event.get('name'), 'trigger': context.trigger}\n"


def context_of(files: dict[str, str]) -> bytes:
    """A build context as the operator stored it: the user's files beside its own."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name, text in (files | {"Dockerfile": "FROM x\n", "server.py": "broken(\n"}).items():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return target.getvalue()


@pytest.fixture
def put(s3_server: S3Server):
    client = boto3.session.Session().client(
        "s3", endpoint_url=f"http://{s3_server.endpoint}", region_name="us-east-1", aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )  # fmt: skip

    def put(name: str, content: bytes, suffix: str = "tar.gz") -> str:
        key = f"contexts/{NAMESPACE}/{name}/1700000000.{suffix}"
        client.put_object(Bucket=BUCKET, Key=key, Body=content)
        return key

    yield put
    client.close()


def create(cluster: Any, kind: str, name: str, namespace: str = NAMESPACE, status: dict[str, Any] | None = None, **spec: Any) -> None:
    # The stand-in tells kinds apart by name, so these have a prefix there; groups and paths are the real ones.
    plural = {"Function": "functions", "Service": "services", "FunctionJob": "functionjobs", "Trigger": "triggers"}[kind]
    item = {"apiVersion": "sless.kube5s.ru/v1alpha1", "kind": f"Earlier{kind}", "metadata": {"name": name, "namespace": namespace}}
    path = f"/apis/sless.kube5s.ru/v1alpha1/namespaces/{namespace}/{plural}"
    cluster.request("POST", path, item | {"spec": spec} | ({"status": status} if status else {}))


def run(operator: Tenant, kubeconfig: str, s3: S3Server, *options: str) -> tuple[int, dict[str, dict[str, str]]]:
    product = operator.product
    done = product.place.sless(
        "import-operator", "--kubeconfig", kubeconfig, "--url", product.url, "--token", operator.token, "--output", "json",
        *options, SLESS_S3_ENDPOINT=s3.endpoint, SLESS_S3_ACCESS_KEY=ACCESS_KEY, SLESS_S3_SECRET_KEY=SECRET_KEY, SLESS_S3_USE_SSL="false",
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, {item["name"]: item for item in json.loads(done.stdout)}


@pytest.fixture
def tenant(product: Product) -> Iterator[Tenant]:
    made = product.tenant(SUB)
    yield made
    made.leave()


def test_tenants_are_imported(tenant: Tenant, operator: Tenant, kube_cluster, s3_server: S3Server, put) -> None:
    for name in (NAMESPACE, "default-team"):
        kube_cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    common = {"runtime": "python3.11", "entrypoint": "handler.handle", "s3Bucket": BUCKET, "memoryMB": 256, "timeoutSec": 20}
    key = put("hello", context_of({"handler.py": HANDLER}))
    create(kube_cluster, "Function", "hello", s3Key=key, env={"GREETING": "hi"}, **common)
    create(kube_cluster, "Service", "site", s3Key=put("site", zip_of({"handler.py": HANDLER}), "zip"), **common | {"timeoutSec": 0})
    done = {"phase": "Succeeded", "message": '{"rows": 3}'}
    create(kube_cluster, "FunctionJob", "work", s3Key=key, runId=3, eventJson='{"n": 1}', status=done, **common)
    create(kube_cluster, "Function", "gone", s3Key=f"contexts/{NAMESPACE}/gone/1.tar.gz", **common)
    create(kube_cluster, "Function", "old", **common | {"runtime": "python2.7"})
    create(kube_cluster, "Function", "elsewhere", "default-team", s3Key=key, **common)
    create(kube_cluster, "Trigger", "front", type="http", functionRef="hello", enabled=True)
    create(kube_cluster, "Trigger", "tick", type="cron", functionRef="hello", enabled=False, schedule="0 3 * * *", preWarmSeconds=60)
    create(kube_cluster, "Trigger", "orders", type="event", functionRef="hello", enabled=False, queue=f"{NAMESPACE}.orders")
    kubeconfig = str(kube_cluster.write_kubeconfig("import"))

    code, rows = run(operator, kubeconfig, s3_server, "--dry-run")
    failed = {name for name, row in rows.items() if row["action"] == "failed"}
    assert failed == {"old", "elsewhere", "gone"}, "it also reports missing code"
    assert {row["action"] for name, row in rows.items() if name not in failed} == {"would create"}
    assert code == 1 and tenant.get("functions").json() == []

    code, rows = run(operator, kubeconfig, s3_server)
    failed = {name for name, row in rows.items() if row["action"] == "failed"}
    assert code == 1 and failed == {"old", "elsewhere", "gone"}
    assert "python2.7" in rows["old"]["notes"] and "default-team" in rows["elsewhere"]["notes"]

    hello = tenant.settled("hello")
    assert (hello["phase"], hello["memory_mb"], hello["timeout_sec"], hello["env_vars"]) == ("Ready", 256, 20, {"GREETING": "hi"})
    answer = tenant.call("POST", f"/fn/{NAMESPACE}/hello", json={"name": "Ada"})
    assert answer.json() == {"hello": "Ada", "trigger": "http"}
    assert sorted(tenant.get("functions/hello/source").json()["files"]) == ["handler.py"]
    assert tenant.settled("site", "service")["phase"] == "Ready"
    job = tenant.get("jobs/work").json()
    assert (job["run_id"], job["phase"], job["result"], job["event_json"]) == (3, "Succeeded", '{"rows": 3}', '{"n": 1}')
    triggers = {item["name"]: item for item in tenant.get("triggers").json()}
    assert (triggers["tick"]["schedule"], triggers["tick"]["pre_warm_seconds"], triggers["tick"]["enabled"]) == ("0 3 * * *", 60, False)
    assert triggers["orders"]["queue"] == f"{NAMESPACE}.orders"

    trail = {(entry["action"], entry["name"]): entry for entry in tenant.get("audit").json()}
    for change in (("function.create", "hello"), ("function.upload", "hello"), ("job.create", "work"), ("trigger.create", "tick")):
        assert trail[change]["sub"] == "the-operator", change

    _, again = run(operator, kubeconfig, s3_server)
    assert {row["action"] for name, row in again.items() if name not in failed} == {"unchanged"}
    assert tenant.get("functions/hello").json()["latest_version"] == 1
    _, planned = run(operator, kubeconfig, s3_server, "--dry-run")
    assert {name: row["action"] for name, row in planned.items()} == dict.fromkeys(again, "would update") | dict.fromkeys(failed, "failed")
    tenant.patch("jobs/work", {"description": "moved"})
    assert tenant.get("jobs/work").json()["phase"] == "Succeeded"  # and did not run
