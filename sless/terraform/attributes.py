"""The attributes of every resource. Defaults are the server's, from `domain.schemas`."""

from functools import partial
from typing import Any

from tf.types import Unknown

from sless.domain import schemas
from sless.domain.runtimes import RUNTIMES
from sless.domain.spec import default_concurrency_of
from sless.terraform.fields import NUMBER, TEXT_MAP, Field, Role, Values
from sless.terraform.write_only import hash_field

required = partial(Field, role=Role.REQUIRED)
status = partial(Field, role=Role.STATUS)
outcome = partial(Field, role=Role.STATUS, stable=True)


def setting(kind: dict[str, Any], name: str, text: str, **more: Any) -> Field:
    """A field of the REST interface with the server's default."""
    default = kind[name]["default"]
    return Field(name=name, text=text, role=Role.DEFAULTED, default=default, **({"zero": True} | more))


def environment(name: str, text: str, **more: Any) -> Field:
    return Field(name=name, text=text, type=TEXT_MAP, sensitive=True, same=_same_map, **more)


def default_entrypoint(planned: Values) -> Any:
    runtime = planned.get("runtime")
    if runtime is Unknown:
        return Unknown
    return RUNTIMES[runtime].default_entrypoint if runtime in RUNTIMES else None


def default_concurrency(planned: Values) -> Any:
    event_format: Any = planned.get("event_format")
    return Unknown if event_format is Unknown else default_concurrency_of(event_format)


def local(name: str, text: str, default: int | None = None) -> Field:
    role = Role.OPTIONAL if default is None else Role.DEFAULTED
    return Field(name=name, text=text, type=NUMBER if default is not None else Field.type, local=True, role=role, default=default)


def _same_map(first: Any, second: Any) -> bool:
    return _without_nulls(first) == _without_nulls(second)


def _without_nulls(value: Any) -> Any:
    return {key: item for key, item in value.items() if item is not None} if isinstance(value, dict) else value or {}


NAME = required(name="name", text="Name within the namespace; functions and services share their names.", replaces=True)
ID = outcome(name="id", text="Same as `name`.", api="name")
NAMESPACE = outcome(name="namespace", text="Namespace of the tenant.")
ENTRYPOINT = Field(
    name="entrypoint",
    text="`module.function`. Default: `handler.handle`, for Go `handler.Handle`.",
    role=Role.DEFAULTED,
    default=default_entrypoint,
    zero=True,
)
ENVIRONMENTS = (
    environment("env_vars", "Environment of the code."),
    environment("build_env", "Environment of the package installer only, such as an index with a password.", write_only=True),
    environment("secret_env", "Environment of the code that cannot be read back.", write_only=True),
)
SECRETS_HASH = hash_field("build_env", "secret_env")
DESCRIBING = (
    setting(schemas.FUNCTION, "description", "Free text."),
    setting(schemas.FUNCTION, "display_name", "Name for people."),
)
CODE = (
    local("source_dir", "Folder with the code. It is zipped in memory, without the files matched by `.slessignore`."),
    local("code_path", "Folder, zip or single file with the code. Conflicts with `source_dir`."),
    Field(
        name="code_hash",
        text="Hash of the code; a change uploads it. Default: computed from the paths, execute bits and contents of the files.",
        role=Role.DEFAULTED,
        sent=False,
    ),
)
WAITING = (
    local("build_timeout_sec", "Seconds to wait for a build.", 300),
    local("wait_timeout_sec", "Seconds to wait until the resource is ready, has ended, or is gone.", 300),
)
BUILD_STATUS = (
    status(
        name="phase",
        text="`Pending`, `Building`, `Deploying`, `Ready`, `Failed` or `Deleting`; of a job `Running`, `Succeeded` or `Skipped`.",
    ),
    status(name="message", text="Why the resource is in its phase."),
    status(name="active_version", text="Number of the version that serves.", type=NUMBER),
    status(name="latest_version", text="Number of the newest version.", type=NUMBER),
    status(name="code_sha256", text="SHA-256 that the server computed over the active version's files."),
    status(name="image_ref", text="Image of the active version, if images are built."),
)
TIMES = (
    outcome(name="created_at", text="Time of creation (RFC 3339)."),
    status(name="updated_at", text="Time of the last change (RFC 3339)."),
)


IDLE = "Seconds without a call before it scales down to `min_instances`."
FUNCTION_SCALING = (
    Field(
        name="max_instances",
        text="Maximum number of instances. Default: 5, or the operator's minimum if that is higher.",
        type=NUMBER,
        role=Role.ASSIGNED,
    ),
    Field(
        name="min_instances",
        text="Instances kept running even without calls. Default: the operator's (`SLESS_MIN_INSTANCES`), usually 0.",
        type=NUMBER,
        role=Role.ASSIGNED,
        follows=("max_instances",),
    ),
    setting(schemas.FUNCTION, "idle_seconds", IDLE, type=NUMBER, zero=False),
)
# `workload.Service.complete` determines which of these have a value, by the others.
SERVICE_SCALING = (
    setting(
        schemas.SERVICE, "replicas", "Number of instances, both minimum and maximum; conflicts with the others.", type=NUMBER, zero=False
    ),
    Field(name="min_instances", text="Instances kept running even without calls. Default: `replicas`.", type=NUMBER, role=Role.DEFAULTED),
    Field(name="max_instances", text="Maximum number of instances. Default: `replicas`.", type=NUMBER, role=Role.DEFAULTED),
    setting(schemas.SERVICE, "idle_seconds", IDLE, type=NUMBER, zero=False),
)


def _callable(kind: dict[str, Any]) -> tuple[Field, ...]:
    """Attributes shared by functions and services. A new setting of the REST interface is one line here."""
    return (
        NAME,
        required(
            name="runtime",
            text=f"Language and version: {', '.join(f'`{name}`' for name in RUNTIMES)}. Another language replaces the resource.",
        ),
        ENTRYPOINT,
        setting(kind, "memory_mb", "Memory of one instance in MB.", type=NUMBER),
        setting(kind, "event_format", "Format of the event of a call over HTTP: `sless`, `aws-http-v1` or `aws-http-v2`."),
        Field(
            name="concurrency",
            text="Concurrent calls per instance; more wait. Default: 50, or 1 with the formats of AWS.",
            type=NUMBER,
            role=Role.DEFAULTED,
            default=default_concurrency,
            zero=True,
        ),
        *ENVIRONMENTS,
        *DESCRIBING,
    )


FUNCTION = (
    *_callable(schemas.FUNCTION),
    *FUNCTION_SCALING,
    setting(schemas.FUNCTION, "timeout_sec", "Seconds to the first byte of an answer, then between chunks.", type=NUMBER),
    *CODE,
    *WAITING,
    ID,
    NAMESPACE,
    SECRETS_HASH,
    *BUILD_STATUS,
    outcome(name="url", text="URL of a call. It answers while an enabled `http` trigger refers to the function."),
    *TIMES,
)
SERVICE = (
    *_callable(schemas.SERVICE),
    Field(
        name="timeout_sec",
        text="Seconds to the first byte of an answer, then between chunks; 0: no limit.",
        type=NUMBER,
        role=Role.DEFAULTED,
        default=schemas.SERVICE["timeout_sec"]["default"],
    ),
    *SERVICE_SCALING,
    *CODE,
    *WAITING,
    ID,
    NAMESPACE,
    SECRETS_HASH,
    *BUILD_STATUS,
    outcome(name="url", text="URL of the service."),
    outcome(name="invoke_url", text="Same as `url`.", api="url"),
    *TIMES,
)
