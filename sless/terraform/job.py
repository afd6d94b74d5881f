"""`sless_job`: starts one run per raised `run_id` and waits for it."""

from functools import partial
from typing import Any

from tf.utils import Diagnostics

from sless.client.client import Json, Resources
from sless.terraform import job_attributes as attributes
from sless.terraform.code import planned_hash
from sless.terraform.failure import Failure
from sless.terraform.fields import Field, Values
from sless.terraform.resource import Change, Resource
from sless.terraform.trigger import REFERENCES, complete_reference
from sless.terraform.workload import build_text, check_code, code_of, first_version_of, language_of, source_attribute

ENDED = ("Succeeded", "Failed")
OVERRIDES = ("memory_mb", "timeout_sec")
"""With `function_ref`, these override the values of the function."""


class Job(Resource):
    kind = "job"
    text = "One run of code with a stored result: of its own code, or of a function's. A higher `run_id` runs it again."
    fields = attributes.JOB

    def validate(self, diagnostics: Diagnostics, type_name: str, config: Values) -> None:
        super().validate(diagnostics, type_name, config)
        check_code(diagnostics, config)
        if config.get("runtime") is None and all(config.get(name) is None for name in REFERENCES):
            text = "Expected runtime and source_dir (own code) or function_ref (a function's code), found neither."
            diagnostics.add_error("Missing code", text, path=["runtime"])

    def complete(self, planned: Values, config: Values, prior: Values | None) -> None:
        complete_reference(planned, config)
        for name in OVERRIDES:
            if planned["function_ref"] is not None and config.get(name) is None:
                planned[name] = None
        planned["code_hash"] = planned_hash(planned, config, prior)

    def needs_replacement(self, field: Field, prior: Values, planned: Values) -> bool:
        if field.name == "runtime" and prior.get("runtime") and planned["runtime"]:
            return language_of(prior["runtime"]) != language_of(planned["runtime"])
        return field.replaces

    def create(self, change: Change) -> None:
        code = code_of(change)
        api: Any = self.api(change.client)
        self.save(change, self.created(change))
        if code is not None:
            self._await_build(change, first_version_of(change, api, code), "create")
        self._await_end(change, "create")

    def update(self, change: Change) -> None:
        """Starts the run last, so that it uses the new code and event."""
        name = change.prior["name"]
        api: Any = self.api(change.client)
        code = code_of(change) if change.planned["code_hash"] != change.prior.get("code_hash") else None
        spec = self.spec_of(change)
        run_id = spec.pop("run_id", None)
        self.save(change, change.waiter.outlast(lambda: api.merge(name, spec) if spec else api.get(name)))
        if code is not None:
            uploaded = change.waiter.outlast(partial(api.upload, name, code.data, change.planned["code_hash"]))
            self._await_build(change, int(uploaded["version"]), "update")
        if run_id is not None:
            self.save(change, change.waiter.outlast(lambda: api.merge(name, {"run_id": run_id})))
            self._await_end(change, "update")

    def _await_build(self, change: Change, number: int, operation: str) -> None:
        name = change.planned["name"]
        api: Any = self.api(change.client)
        timeout_sec = self.timeout_sec(change.planned, operation, "build_timeout_sec")

        def built(found: Json) -> bool:
            return int(found.get("latest_version") or 0) >= number and found.get("latest_state") in ("ready", "failed", "cancelled")

        found = self._poll(change, built, timeout_sec, f"version {number} of {name} is still being built")
        if found["latest_state"] != "ready":
            version = api.version(name, found["latest_version"])
            raise Failure(f'Build of job "{name}" {found["latest_state"]}', build_text(version), (source_attribute(change.planned),))

    def _await_end(self, change: Change, operation: str) -> None:
        if not change.planned["run_id"]:
            self.save(change, self.api(change.client).get(change.planned["name"]))
            return
        name = change.planned["name"]
        timeout_sec = self.timeout_sec(change.planned, operation, "wait_timeout_sec")
        found = self._poll(change, lambda resource: resource["phase"] in ENDED, timeout_sec, f"job {name} has not ended")
        if found["phase"] == "Failed":
            raise Failure(f'Job "{name}" failed', str(found.get("message")))

    def _poll(self, change: Change, is_met: Any, timeout_sec: float, text: str) -> Json:
        api: Resources = self.api(change.client)
        resource: Json = {}

        def check() -> Json | None:
            resource.clear()
            resource.update(api.get(change.planned["name"]))
            return dict(resource) if is_met(resource) else None

        try:
            return change.waiter.poll(check, timeout_sec, lambda: text)
        finally:
            if resource:
                self.save(change, resource)
