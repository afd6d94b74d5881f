"""Renders the chart with Helm, and defines sets of values for it."""

import base64
from pathlib import Path
from typing import Any

import helm_python
import yaml

CHART = Path(__file__).parents[3] / "helm" / "sless"
NAMESPACE = "cloud"

DATABASE = {"database": {"url": "postgresql://sless:pw-database@db/sless"}}
S3 = {"s3": {"endpoint": "https://s3.example.net", "bucket": "code", "region": "eu-1", "accessKey": "ak-s3", "secretKey": "sk-s3"}}

FULL: dict[str, Any] = {
    **DATABASE,
    **S3,
    "image": {"repository": "registry.example.net/sless", "tag": "1.2.3", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "regcred"}],
    "commonLabels": {"team": "cloud"},
    "replicas": 3,
    "externalUrl": "https://fn.example.net",
    "trustedProxies": ["10.0.0.0/8"],
    "logLevel": "debug",
    "gracefulTimeoutSec": 60,
    "auth": {"jwtSecret": "s" * 40, "jwksUrl": "https://id.example.net/jwks", "publicKey": "-----BEGIN PUBLIC KEY-----\nabc\n",
             "audience": "sless", "issuer": "id", "tenantClaim": "team", "operatorSubs": ["root", "ops"]},
    "encryption": {"keys": "bmV3LW5ldy1uZXctbmV3LW5ldy1uZXctbmV3LW5ldy0=, b2xkLW9sZC1vbGQtb2xkLW9sZC1vbGQtb2xkLW9sZC0="},
    "rabbitmq": {"url": "amqp://u:pw-rabbit@mq", "queuesAllowed": ["shared", "ns/q"]},
    "outboundAllow": ["10.1.0.0/16:5672"],
    "registry": {"host": "harbor.example.net", "project": "fn", "insecure": True, "username": "push", "password": "pw-registry",
                 "pullSecret": "pull-only",
                 "harbor": {"url": "https://harbor.example.net", "user": "admin-harbor", "password": "pw-harbor"}},
    "builder": {"kind": "buildah", "image": "buildah:1", "args": ["--log-level=debug", "--x=y"], "namespace": "builds",
                "memory": "4Gi", "cpu": 3, "pullSecret": "base-images",
                "pod": {"nodeSelector": {"pool": "builds"}}, "egressAllow": ["10.7.0.0/16"]},
    "runtimeImages": {"python311": "r/py:1", "nodejs20": "r/node:1", "go123": "r/go:1"},
    "functions": {"url": "https://*.fns.example.org",
                  "imageBuild": "always",
                  "prePull": True, "ingress": {"host": "apps.example.net", "className": "nginx", "tlsSecret": "wild"},
                  "egressAllow": ["10.9.0.0/16", "10.8.1.2:5432"], "quota": {"pods": 7, "memory": "9Gi", "cpu": 3}, "cpu": 2,
                  "cpuRequest": "20m", "runtimeClass": "gvisor", "nodeSelector": {"pool": "fn", "arch": "amd64"},
                  "tolerations": [{"key": "fn", "operator": "Exists"}]},
    "settings": {"min_instances": 1, "max_instances": 9, "max_memory_mb": 5,
        "host": "::", "run_dir": "/tmp/run", "kubeconfig": "/tmp/kubeconfig", "async_per_function": 4,
        "limit_functions": 11, "limit_services": 12, "limit_triggers": 13, "limit_jobs": 14, "limit_code_bytes": 15,
        "limit_builds_per_hour": 16,
        "limit_builds_at_once": 21, "limit_runs_at_once": 22, "limit_instances": 23, "limit_memory_mb": 24, "limit_calls_per_minute": 25,
        "async_queued_per_function": 5, "async_queued_per_tenant": 6, "async_queued_bytes_per_tenant": 7, "functions_sandbox": False,
        "local_sandbox": "none", "local_sandbox_read": ["/opt/models"],
        "history_days": 3,
                 "history_per_function": 2000000, "stats_days": 100, "audit_days": 50,
                 "versions_kept": 4, "build_timeout_sec": 600, "builds_at_once": 3,
                 "max_runs": 33, "instance_wait_sec": 0, "max_zip_bytes": 67108864, "max_unpacked_bytes": 536870912, "max_code_files": 9000,
                 "max_call_body_bytes": 33554432, "max_held_bytes": 1073741824, "max_connections_per_client": 70,
                 "max_json_bytes": 2097152, "max_result_bytes": 2097152, "max_env_bytes": 131072},
    "service": {"type": "NodePort", "port": 8080, "nodePort": 30080, "annotations": {"a": "b"}},
    "ingress": {"enabled": True, "className": "nginx", "host": "fn.example.net", "tls": {"enabled": True, "secretName": "tls"},
                "annotations": {"cert-manager.io/cluster-issuer": "le"}},
    "codeChecks": {"rules": "block", "llm": {"mode": "warn", "url": "https://models.example.net/v1", "model": "guard", "token": "tok-llm",
                                             "timeoutSec": 9}},
    "metrics": {"token": "tok-metrics", "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
                "alerts": {"enabled": True, "labels": {"release": "prometheus"}}, "dashboard": {"enabled": True}},
    "podDisruptionBudget": {"enabled": True},
    "networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}}}]},
    "serviceAccount": {"annotations": {"x": "y"}},
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
    "nodeSelector": {"pool": "system"},
    "tolerations": [{"key": "system", "operator": "Exists", "effect": "NoSchedule"}],
    "priorityClassName": "system-cluster-critical",
    "podLabels": {"l": "m"},
    "podAnnotations": {"n": "o"},
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}],
}  # fmt: skip

MINIMAL: dict[str, Any] = {
    "persistence": {"enabled": False}, "serviceAccount": {"create": False}, "rbac": {"create": False}, "resources": {}, "backend": "local",
    "auth": {"existingSecret": "mine"},
}  # fmt: skip

EXISTING: dict[str, Any] = {
    "encryption": {"existingSecret": "enc"},
    "auth": {"existingSecret": "jwt"}, "database": {"existingSecret": "pg"}, "rabbitmq": {"existingSecret": "mq"},
    "s3": {"endpoint": "s3:9000", "useSsl": False, "existingSecret": "s3"}, "replicas": 2,
    "registry": {"host": "docker.io/me", "existingSecret": "pull", "harbor": {"url": "https://h", "existingSecret": "harbor"}},
    "codeChecks": {"llm": {"mode": "warn", "url": "https://m/v1", "model": "guard", "existingSecret": "llm"}},
    "metrics": {"existingSecret": "m", "serviceMonitor": {"enabled": True}},
}  # fmt: skip

VALUES: dict[str, dict[str, Any]] = {
    "default": {},
    "minimal": MINIMAL,
    "full": FULL,
    "existing": EXISTING,
    "maintenance": {"maintenance": True},
}


def render(values: dict[str, Any] | None = None, *, name: str = "sless", namespace: str = NAMESPACE) -> list[dict[str, Any]]:
    """All objects, including the chart's test. Raises HelmError."""
    with helm_python.Chart.load(CHART) as chart:
        files = chart.render(values=values or {}, name=name, namespace=namespace)
    texts = [text for path, text in sorted(files.items()) if not path.endswith("NOTES.txt")]
    return [item for text in texts for item in yaml.safe_load_all(text) if item]


def notes_of(values: dict[str, Any] | None = None) -> str:
    with helm_python.Chart.load(CHART) as chart:
        files = chart.render(values=values or {}, name="sless", namespace=NAMESPACE)
    return next(text for path, text in files.items() if path.endswith("NOTES.txt"))


def one(objects: list[dict[str, Any]], kind: str, name: str = "sless") -> dict[str, Any]:
    return next(item for item in objects if item["kind"] == kind and item["metadata"]["name"] == name)


def kinds_of(objects: list[dict[str, Any]]) -> list[str]:
    return sorted(item["kind"] for item in objects)


def pod_of(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return one(objects, "Deployment")["spec"]["template"]["spec"]


def environment_of(objects: list[dict[str, Any]]) -> dict[str, str]:
    """The environment of the server's container, from ConfigMap, Secret and env; `secret/key` stands for values in a Secret."""
    container = pod_of(objects)["containers"][0]
    found: dict[str, str] = {}
    for source in container["envFrom"]:
        if "configMapRef" in source:
            found |= one(objects, "ConfigMap", source["configMapRef"]["name"])["data"]
        else:
            data = one(objects, "Secret", source["secretRef"]["name"])["data"]
            found |= {key: base64.b64decode(value).decode() for key, value in data.items()}
    for item in container["env"]:
        reference = item.get("valueFrom", {}).get("secretKeyRef")
        found[item["name"]] = f"{reference['name']}/{reference['key']}" if reference else item["value"]
    return found
