"""`sless_function` and `sless_service`."""

from functools import partial
from typing import Any

from tf.types import Unknown
from tf.utils import Diagnostics

from sless.client.client import Json, Workloads
from sless.client.deployment import delete_refused
from sless.client.errors import ClientError
from sless.domain.instance_bounds import DEFAULT_MAX
from sless.domain.runtimes import RUNTIMES
from sless.terraform import attributes
from sless.terraform.code import SOURCES, PackedCode, planned_hash, read_code, source_of
from sless.terraform.failure import Failure
from sless.terraform.fields import Field, Values
from sless.terraform.resource import Change, Resource

LOG_LINES = 20
BOUNDS = ("min_instances", "max_instances")


class Workload(Resource):
    def validate(self, diagnostics: Diagnostics, type_name: str, config: Values) -> None:
        super().validate(diagnostics, type_name, config)
        check_code(diagnostics, config)

    def complete(self, planned: Values, config: Values, prior: Values | None) -> None:
        planned["code_hash"] = planned_hash(planned, config, prior)

    def needs_replacement(self, field: Field, prior: Values, planned: Values) -> bool:
        if field.name == "runtime":
            return language_of(prior["runtime"]) != language_of(planned["runtime"])
        return field.replaces

    def observed(self, item: Field, found: Json) -> Any:
        value = super().observed(item, found)
        if item.name == "url" and value is None:
            # The future URL: the server returns it only once an http trigger exists.
            return self.connection.client().call_url(found["namespace"], found["name"])
        return value

    def create(self, change: Change) -> None:
        code = code_of(change)
        api: Any = self.api(change.client)
        self.save(change, self.created(change))
        if code is not None:
            self._await_version(change, first_version_of(change, api, code), "create")

    def update(self, change: Change) -> None:
        name = change.prior["name"]
        api: Any = self.api(change.client)
        before = change.waiter.outlast(lambda: api.get(name))
        code = code_of(change) if change.planned["code_hash"] != change.prior.get("code_hash") else None
        spec = self.spec_of(change)
        if spec:
            self.save(change, change.waiter.outlast(lambda: api.merge(name, spec)))
        if code is not None:
            uploaded = change.waiter.outlast(partial(api.upload, name, code.data, change.planned["code_hash"]))
            self._await_version(change, int(uploaded["version"]), "update")
        elif spec and before.get("latest_version"):
            self._await_ready(change, int(before["latest_version"]), "update")
        else:
            self.save(change, api.get(name))

    def _await_version(self, change: Change, number: int, operation: str) -> None:
        name = change.planned["name"]
        api: Any = self.api(change.client)
        check = partial(_ended_version, api, name, number)
        try:
            version = change.waiter.poll(
                check,
                self.timeout_sec(change.planned, operation, "build_timeout_sec"),
                lambda: f"version {number} of {name} is still being built",
            )
        finally:
            self.save_found(change)
        if version["state"] != "ready":
            raise Failure(f'Build of {self.kind} "{name}" {version["state"]}', build_text(version), (source_attribute(change.planned),))
        self._await_ready(change, number, operation)

    def _await_ready(self, change: Change, number: int, operation: str) -> None:
        """Waits until version `number` serves or is superseded. A changed entrypoint creates another version."""
        name = change.planned["name"]
        api: Any = self.api(change.client)
        resource: Json = {}

        def settled() -> Json | None:
            resource.clear()
            resource.update(api.get(name))
            return dict(resource) if resource["phase"] == "Failed" or (resource["phase"] == "Ready" and _serves(resource, number)) else None

        timeout_sec = self.timeout_sec(change.planned, operation, "wait_timeout_sec")
        try:
            found = change.waiter.poll(settled, timeout_sec, lambda: f"{name} is still {resource.get('phase')}")
        finally:
            if resource:
                self.save(change, resource)
        latest = int(found.get("latest_version") or 0)
        if found["phase"] == "Failed" or (latest > number and found.get("latest_state") == "failed"):
            raise Failure(f'{self.kind.capitalize()} "{name}" failed', _log_of(api, name, latest) or str(found.get("message")))


class Function(Workload):
    kind = "function"
    text = "Code that runs when it is called: over HTTP with an `http` trigger, by a schedule, or for the messages of a queue."
    fields = attributes.FUNCTION


class Service(Workload):
    kind = "service"
    text = "Code with permanently running instances and a URL, without a trigger."
    fields = attributes.SERVICE

    def validate(self, diagnostics: Diagnostics, type_name: str, config: Values) -> None:
        super().validate(diagnostics, type_name, config)
        beside = next((name for name in BOUNDS if config.get(name) is not None), None)
        if config.get("replicas") is not None and beside:
            text = f"Expected either replicas or min_instances and max_instances, found replicas and {beside}."
            diagnostics.add_error("Conflicting attributes", text, path=["replicas"])

    def complete(self, planned: Values, config: Values, prior: Values | None) -> None:
        super().complete(planned, config, prior)
        planned.update(counts_of(config))


def first_version_of(change: Change, api: Any, code: PackedCode) -> int:
    """Uploads the code of the resource that was just created, which is deleted if the server refuses the code. Raises ClientError."""
    name = change.planned["name"]
    try:
        uploaded = change.waiter.outlast(partial(api.upload, name, code.data, change.planned["code_hash"]))
    except ClientError as error:
        if delete_refused(api, name, error):
            change.saved = None
        raise
    return int(uploaded["version"])


def counts_of(config: Values) -> Values:
    """Replicas, or minimum and maximum, since the server returns a number of replicas as both bounds, too."""
    if all(config.get(name) is None for name in BOUNDS):
        number = 1 if config.get("replicas") is None else config["replicas"]
        return {"replicas": number, **dict.fromkeys(BOUNDS, number)}
    least = 1 if config.get("min_instances") is None else config["min_instances"]
    most = config.get("max_instances")
    if most is None:
        most = Unknown if least is Unknown else max(least, DEFAULT_MAX)
    return {"replicas": None, "min_instances": least, "max_instances": most}


def check_code(diagnostics: Diagnostics, config: Values) -> None:
    if all(config.get(name) is not None for name in SOURCES):
        diagnostics.add_error("Conflicting attributes", "Expected source_dir or code_path, found both.", path=["code_path"])


def code_of(change: Change) -> PackedCode | None:
    """Raises Failure if the files have changed since the plan."""
    found = source_of(change.planned)
    if found is None:
        return None
    code = read_code(change.planned)
    if change.planned.get("code_hash") in (None, Unknown):
        change.planned["code_hash"] = code.hash
    elif change.config.get("code_hash") is None and change.planned["code_hash"] != code.hash:
        raise Failure("The code changed after the plan", f"{found[1]} has other files now: plan again.", (found[0],))
    return code


def source_attribute(values: Values) -> str:
    found = source_of(values)
    return found[0] if found else "name"


def language_of(runtime: Any) -> str:
    return RUNTIMES[runtime].language if runtime in RUNTIMES else str(runtime)


def build_text(version: Json) -> str:
    """The reason and the last lines of the log."""
    message = str(version.get("message") or "")
    lines = [line for line in str(version.get("build_log") or "").splitlines() if line.strip()][-LOG_LINES:]
    return "\n".join([message, *(line for line in lines if line not in message)])


def _log_of(api: Workloads, name: str, number: int) -> str:
    return build_text(api.version(name, number)) if number else ""


def _ended_version(api: Workloads, name: str, number: int) -> Json | None:
    version = api.version(name, number)
    return version if version.get("state") in ("ready", "failed", "cancelled") else None


def _serves(found: Json, number: int) -> bool:
    return found.get("active_version") == number or int(found.get("latest_version") or 0) > number
