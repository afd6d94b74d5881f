"""Settings: one frozen dataclass, read from the environment once. All errors are reported together.

Variables are `SLESS_` + the upper-case field name; `SLESS_X_FILE` reads the value of X from a file. Unknown `SLESS_*` names stop the
server, except for names of the client and the runtimes, and values that start with `tcp://` (Kubernetes injects those for Services).
"""

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from sless.errors import ConfigError

PREFIX = "SLESS_"
CLIENT_NAMES = frozenset({"URL", "TOKEN", "PROFILE", "OUTPUT", "ENDPOINT", "API_TOKEN", "AUTH_CHECK_URL"})
RUNTIME_NAMES = frozenset(
    {
        "MODE", "ENTRYPOINT", "CODE_DIR", "DEPS_DIR", "SOCKET", "ADDRESS", "PORT", "FUNCTION_NAME", "NAMESPACE", "VERSION", "MEMORY_MB",
        "TIMEOUT_SEC", "CONCURRENCY", "GRACE_SEC", "EVENT_FORMAT", "LIFELINE_FD", "CODE_ARCHIVE", "EVENT", "EVENT_FILE", "INVOCATION_ID",
        "REQUEST_ID", "TRIGGER", "RESULT_FILE",
    }
)  # fmt: skip
CONSOLE_COOKIE_PREFIX = "sless_"
"""Prefix of cookies that functions on the console's host cannot set."""
CONSOLE_COOKIE = CONSOLE_COOKIE_PREFIX + "token"
_USER_INFO = re.compile(r"://[^/?#\s]*@")
LATER_PREFIXES = ("LLM_",)
"""Prefixes of settings that are defined but not implemented yet. They are accepted, so that one environment fits several releases."""


def _setting(default: Any, text: str, *, secret: bool = False, choices: tuple[str, ...] = (), least: int | None = None) -> Any:
    return field(default=default, metadata={"help": text, "secret": secret, "choices": choices, "least": least})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All server settings. Names carry the units."""

    host: str = _setting("127.0.0.1", "address to listen on; 0.0.0.0 in the image")
    port: int = _setting(9090, "port to listen on; 0 picks a free one", least=0)
    data_dir: Path = _setting(Path(), "folder for the database, code and caches; default: $XDG_DATA_HOME/sless or ~/.local/share/sless")
    run_dir: Path = _setting(Path(), "folder for unix sockets (short path); default: a private folder in the temporary directory")
    database_url: str = _setting("", "SQLAlchemy URL (postgres:// is accepted); default: SQLite in the data folder", secret=True)
    encryption_keys: tuple[str, ...] = _setting(
        (),
        "comma-separated Fernet keys that encrypt secrets in the database, newest first; default: a file of the data folder",
        secret=True,
    )
    external_url: str = _setting("", "base URL for callers; default: http://HOST:PORT")
    functions_url: str = _setting("", "base URL of functions, on another host than the console; https://*.DOMAIN: a host per function")
    backend: str = _setting("auto", "where functions run", choices=("auto", "local", "kubernetes"))
    local_sandbox: str = _setting("auto", "sandbox of functions and builds with BACKEND=local", choices=("auto", "bwrap", "none"))
    local_sandbox_read: tuple[str, ...] = _setting((), "comma-separated folders that functions and builds may read in that sandbox")
    log_level: str = _setting("info", "log level of the server", choices=("debug", "info", "warning", "error"))
    auth_mode: str = _setting("", "how tokens are verified; default: local, or secret in a cluster",
                              choices=("", "local", "secret", "jwks", "public-key", "perimeter"))  # fmt: skip
    jwt_secret: str = _setting("", "HS256 secret for AUTH_MODE=secret, at least 32 bytes", secret=True)
    jwks_url: str = _setting("", "URL of the key set for AUTH_MODE=jwks")
    jwt_public_key: str = _setting("", "PEM public key for AUTH_MODE=public-key (usually set as SLESS_JWT_PUBLIC_KEY_FILE)")
    jwt_audience: str = _setting("", "required `aud` of tokens; empty: not checked")
    jwt_issuer: str = _setting("", "required `iss` of tokens; empty: not checked")
    tenant_claim: str = _setting("sub", "claim of tokens that names the tenant; a team that shares a namespace shares its value")
    operator_subs: tuple[str, ...] = _setting((), "comma-separated token subjects that may access any namespace")
    trusted_proxies: tuple[str, ...] = _setting((), "comma-separated addresses or CIDRs whose X-Forwarded-* headers are trusted")
    metrics_token: str = _setting("", "bearer token required by /metrics; empty: open", secret=True)
    s3_endpoint: str = _setting("", "S3 endpoint URL; empty: code is stored in the data folder")
    s3_bucket: str = _setting("sless", "S3 bucket for code")
    s3_region: str = _setting("us-east-1", "S3 region")
    s3_access_key: str = _setting("", "S3 access key", secret=True)
    s3_secret_key: str = _setting("", "S3 secret key", secret=True)
    s3_use_ssl: bool = _setting(True, "use https if S3_ENDPOINT has no scheme")
    rabbitmq_url: str = _setting("", "AMQP URL of the shared broker for event triggers without an amqp_url", secret=True)
    event_queues_allowed: tuple[str, ...] = _setting(
        (), "comma-separated queues of the shared broker that may be used besides `{ns}.*`: `queue` or `ns/queue`"
    )
    outbound_allow: tuple[str, ...] = _setting((), "comma-separated CIDR[:port] for callbacks and brokers besides public addresses")
    limit_functions: int = _setting(100, "functions per tenant", least=0)
    limit_services: int = _setting(50, "services per tenant", least=0)
    limit_triggers: int = _setting(200, "triggers per tenant", least=0)
    limit_jobs: int = _setting(200, "jobs per tenant", least=0)
    limit_code_bytes: int = _setting(5 * 2**30, "bytes of stored code per tenant", least=0)
    limit_builds_per_hour: int = _setting(240, "builds started per tenant and hour; more are a 429", least=0)
    limit_builds_at_once: int = _setting(5, "concurrent builds per tenant; others wait", least=1)
    limit_runs_at_once: int = _setting(20, "concurrent runs per tenant; others wait", least=1)
    limit_instances: int = _setting(50, "instances per tenant", least=0)
    limit_memory_mb: int = _setting(16_384, "memory in MB of all instances per tenant", least=0)
    limit_calls_per_minute: int = _setting(60_000, "calls per tenant and minute, more are a 429", least=1)
    async_per_function: int = _setting(10, "concurrent asynchronous calls per function", least=1)
    async_queued_per_function: int = _setting(1000, "waiting asynchronous calls per function; more are a 429", least=1)
    async_queued_per_tenant: int = _setting(5000, "waiting asynchronous calls per namespace; more are a 429", least=1)
    async_queued_bytes_per_tenant: int = _setting(256 * 2**20, "bytes of waiting asynchronous calls per namespace", least=1)
    kubeconfig: Path = _setting(Path(), "kubeconfig file; default: the pod's service account, else ~/.kube/config")
    pod_namespace: str = _setting("sless", "namespace that sless runs in")
    builder_namespace: str = _setting("", "namespace for builder Jobs; default: POD_NAMESPACE-builds")
    internal_url: str = _setting("", "URL of sless for pods; default: http://sless.POD_NAMESPACE.svc:PORT")
    image_build: str = _setting(
        "auto", "auto: small code without dependencies runs on the runtime image without a build", choices=("auto", "always")
    )
    runtime_image_python311: str = _setting("sless/runtime-python3.11:latest", "runtime image for python3.11")
    runtime_image_nodejs20: str = _setting("sless/runtime-nodejs20:latest", "runtime image for nodejs20")
    runtime_image_go123: str = _setting(
        "golang:1.23-bookworm@sha256:167053a2bb901972bf2c1611f8f52c44d5fe7e762e5cab213708d82c421614db",
        "image for building go1.23 functions",
    )
    registry_host: str = _setting("", "image registry, `host[:port]` or `host/user`; empty: no image builds, only small code runs")
    registry_project: str = _setting("", "project (path) within the registry")
    registry_secret: str = _setting("", "Secret in POD_NAMESPACE (dockerconfigjson) of an account that can push")
    registry_pull_secret: str = _setting(
        "", "Secret of an account that can only pull, copied to tenants' namespaces; default: nodes pull without a password"
    )
    registry_insecure: bool = _setting(False, "the registry uses plain http")
    harbor_url: str = _setting("", "URL of Harbor, whose project is created before the first push")
    harbor_user: str = _setting("", "Harbor user")
    harbor_password: str = _setting("", "Harbor password", secret=True)
    builder: str = _setting("kaniko", "image builder in the cluster", choices=("kaniko", "buildah"))
    builder_image: str = _setting("", "builder image; default: that of the chosen builder")
    builder_args: tuple[str, ...] = _setting((), "comma-separated additional arguments for the builder")
    builder_pull_secret: str = _setting("", "Secret in POD_NAMESPACE for pulling runtime images in builds; tenants may be able to read it")
    builder_memory: str = _setting("2Gi", "memory limit of a builder pod")
    builder_cpu: str = _setting("2", "CPU limit of a builder pod")
    builder_pod: str = _setting("", "JSON object merged into the spec of builder pods (nodeSelector, tolerations, hostUsers …)")
    builder_egress_allow: tuple[str, ...] = _setting(
        (), "comma-separated CIDR[:port] that builder pods may reach besides public addresses, the registry and S3"
    )
    ingress_host: str = _setting("", "without EXTERNAL_URL and FUNCTIONS_URL, each function gets an Ingress at {name}-{ns}.INGRESS_HOST")
    ingress_class: str = _setting("", "ingressClassName of those Ingresses")
    ingress_tls_secret: str = _setting("", "TLS secret of those Ingresses")
    functions_sandbox: bool = _setting(
        True, "sandbox functions' pages on the console's host (own origin, no cookies); only with BACKEND=kubernetes"
    )
    egress_allow: tuple[str, ...] = _setting((), "comma-separated CIDR[:port] in private ranges that functions may reach")
    tenant_pods: int = _setting(20, "ResourceQuota of a tenant: pods", least=1)
    tenant_memory: str = _setting("4Gi", "ResourceQuota of a tenant: memory limits")
    tenant_cpu: str = _setting("4", "ResourceQuota of a tenant: CPU requests")
    function_cpu: str = _setting("1", "CPU limit of an instance or run")
    function_cpu_request: str = _setting("50m", "CPU request of an instance or run")
    runtime_class: str = _setting("", "runtimeClassName of function pods, such as gvisor")
    node_selector: tuple[str, ...] = _setting((), "comma-separated label=value of nodes for function pods")
    tolerations: str = _setting("", "JSON array of tolerations for function pods")
    history_days: int = _setting(14, "days to keep invocations and their logs", least=1)
    history_per_function: int = _setting(10_000, "invocations to keep per function", least=1)
    stats_days: int = _setting(400, "days to keep call statistics", least=1)
    audit_days: int = _setting(365, "days to keep the audit trail", least=1)
    versions_kept: int = _setting(10, "versions to keep per function, service or job; the active one is always kept", least=1)
    build_timeout_sec: int = _setting(300, "maximum duration of a build in seconds", least=1)
    builds_at_once: int = _setting(3, "concurrent builds", least=1)
    max_runs: int = _setting(20, "concurrent runs: jobs, and calls of functions without instances", least=1)
    min_instances: int = _setting(0, "default min_instances of functions", least=0)
    max_instances: int = _setting(20, "maximum number of instances of one function or service", least=1)
    max_memory_mb: int = _setting(
        0, "memory in MB that all instances together may have with BACKEND=local; 0: 80 % of this machine's", least=0
    )
    instance_wait_sec: int = _setting(30, "seconds a call waits for an instance before it gets a 503", least=0)
    graceful_timeout_sec: int = _setting(30, "seconds that active calls get to finish when the server stops", least=6)
    max_zip_bytes: int = _setting(32 * 2**20, "maximum size of an uploaded zip", least=1)
    max_unpacked_bytes: int = _setting(256 * 2**20, "maximum size of unpacked code", least=1)
    max_code_files: int = _setting(5_000, "maximum number of files per upload", least=1)
    max_call_body_bytes: int = _setting(32 * 2**20, "maximum request body on /fn and invoke", least=1)
    max_connections_per_client: int = _setting(1000, "open connections of one address; more are a 429; not for trusted proxies", least=1)
    max_held_bytes: int = _setting(512 * 2**20, "bytes of request bodies held at one moment; a quarter per tenant and client", least=1)
    max_json_bytes: int = _setting(1 * 2**20, "maximum JSON body of other REST requests", least=1024)
    max_result_bytes: int = _setting(1 * 2**20, "maximum result of a run", least=1)
    rules_mode: str = _setting("warn", "effect of bandit's findings (high severity) on an upload of Python code",
                               choices=("off", "warn", "block"))  # fmt: skip
    llm_mode: str = _setting("off", "effect of a language model's unsafe verdict on an upload", choices=("off", "warn", "block"))
    llm_url: str = _setting("", "base URL of an OpenAI-compatible endpoint, such as https://models.example.com/v1")
    llm_model: str = _setting("", "model that checks code")
    llm_token: str = _setting("", "bearer token of that endpoint", secret=True)
    llm_timeout_sec: int = _setting(20, "how long an upload waits for the model", least=1)
    max_env_bytes: int = _setting(64 * 1024, "maximum total size of names and values in env_vars", least=1)

    def base_url(self) -> str:
        """The base URL for callers, without a trailing slash."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::", "") else self.host
        return self.external_url.rstrip("/") or f"http://{host}:{self.port}"


def default_data_dir(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_DATA_HOME") or os.path.join(environ.get("HOME") or "/tmp", ".local", "share")
    return Path(base) / "sless"


def load(environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Reads settings from the environment; `overrides` (command-line options) take precedence. Raises ConfigError with all errors."""
    environ = os.environ if environ is None else environ
    mistakes: list[str] = []
    texts = _texts_of(environ, mistakes)
    values: dict[str, Any] = {}
    for item in fields(Settings):
        if item.name in texts:
            try:
                values[item.name] = _parse(item, texts[item.name])
            except ValueError as error:
                shown = "(hidden)" if item.metadata["secret"] else repr(texts[item.name])
                mistakes.append(f"{PREFIX}{item.name.upper()}: {error}, found {shown}")
    if mistakes:
        raise ConfigError("wrong settings:\n  " + "\n  ".join(mistakes))
    values.update({name: value for name, value in overrides.items() if value is not None})
    least, most = (values.get(name, Settings.__dataclass_fields__[name].default) for name in ("min_instances", "max_instances"))
    if least > most:
        raise ConfigError(f"SLESS_MIN_INSTANCES: expected at most SLESS_MAX_INSTANCES, which is {most}, found {least}")
    values.setdefault("data_dir", default_data_dir(environ))
    values["auth_mode"] = values.get("auth_mode") or ("secret" if in_cluster(environ) else "local")
    if values.get("backend", "auto") == "auto":
        values["backend"] = "kubernetes" if in_cluster(environ) else "local"
    return Settings(**values)


def in_cluster(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("KUBERNETES_SERVICE_HOST"))


def passed_on(names: tuple[str, ...], environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables of the server's environment whose names are listed or match a listed `PREFIX_*`, such as those that builders need: PATH,
    proxies, certificates, the package index."""
    environ = os.environ if environ is None else environ
    prefixes = tuple(name[:-1] for name in names if name.endswith("*"))
    return {key: value for key, value in environ.items() if key in names or (prefixes and key.startswith(prefixes))}


def shown(settings: Settings) -> list[tuple[str, str, str]]:
    """(name, value, help with choices) of every setting; secrets appear as `(set)`, user info in URLs as `***`."""
    rows = []
    for item in fields(Settings):
        value = getattr(settings, item.name)
        text = ("(set)" if value else "") if item.metadata["secret"] else _USER_INFO.sub("://***@", _text_of(value))
        choices = " | ".join(filter(None, item.metadata["choices"]))
        rows.append((PREFIX + item.name.upper(), text, item.metadata["help"] + (f" ({choices})" if choices else "")))
    return rows


def _texts_of(environ: Mapping[str, str], mistakes: list[str]) -> dict[str, str]:
    known = {item.name.upper() for item in fields(Settings)}
    texts: dict[str, str] = {}
    for key, value in sorted(environ.items()):
        name = key.removeprefix(PREFIX)
        if not key.startswith(PREFIX) or value.startswith("tcp://") or name in CLIENT_NAMES:
            continue
        if name in known:
            texts[name.lower()] = value
        elif name.endswith("_FILE") and name[:-5] in known:
            try:
                texts[name[:-5].lower()] = Path(value).read_text().rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                mistakes.append(f"{key}: cannot read {value!r}: {error}")
        elif name in RUNTIME_NAMES or name.startswith("TEST_"):
            continue
        else:
            near = difflib.get_close_matches(name, known, n=1)
            mistakes.append(
                f"{key}: unknown setting" + (f"; did you mean {PREFIX}{near[0]}?" if near else "; `sless config` lists all settings")
            )
    return texts


def _parse(item: "Field[Any]", text: str) -> Any:
    default = item.default
    choices, least = item.metadata["choices"], item.metadata["least"]
    if choices and text not in choices:
        raise ValueError("expected one of " + ", ".join(filter(None, choices)))
    match default:
        case bool():
            if text.lower() not in ("1", "0", "true", "false", "yes", "no"):
                raise ValueError("expected true or false")
            return text.lower() in ("1", "true", "yes")
        case int():
            if not re.fullmatch(r"-?[0-9]{1,18}", text.strip()):
                raise ValueError("expected a whole number")
            if least is not None and int(text) < least:
                raise ValueError(f"expected at least {least}")
            return int(text)
        case tuple():
            return tuple(part.strip() for part in text.split(",") if part.strip())
        case Path():
            return Path(text).expanduser().absolute()
    return text


def _text_of(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(map(str, value))
        case Path():
            return str(value) if value != Path() else ""
    return str(value)
