"""The plugin protocol on top of `tf`'s servicer. No error may surface as a gRPC traceback."""

import json
import threading
from collections.abc import Callable
from typing import Any

import grpc
from tf.gen import tfplugin_pb2 as pb
from tf.provider import ProviderServicer
from tf.types import Unknown
from tf.utils import Diagnostics, _to_attribute_path, read_dynamic_value, to_dynamic_value

from sless.terraform.failure import report
from sless.terraform.fields import Values
from sless.terraform.planning import chosen_of, known, plan_change, private_of
from sless.terraform.provider import SlessProvider
from sless.terraform.resource import Change, Resource
from sless.terraform.write_only import HASH, hash_of, hides_write_only, secrets_of

Work = Callable[[Diagnostics], dict[str, Any]]


class Servicer(ProviderServicer):
    """Called from several threads. After `StopProvider`, running calls end soon and save what they have created so far. `is_reused`: the
    process serves several runs of Terraform in turn, and a stop applies only to its run."""

    is_reused = False

    def __init__(self, provider: SlessProvider, stop: threading.Event) -> None:
        super().__init__(provider)
        self.provider = provider
        self.stop = stop

    def ConfigureProvider(self, request: Any, context: grpc.ServicerContext) -> Any:
        def work(diagnostics: Diagnostics) -> dict[str, Any]:
            if self.is_reused:
                self.stop.clear()
            self.provider.connection.hides_write_only = hides_write_only(request.terraform_version)
            self.provider.connection.configure(read_dynamic_value(request.config))
            return {}

        return _answer(pb.ConfigureProvider.Response, work, "Cannot use the server", self.provider.attribute_names)

    def UpgradeResourceState(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource = self.provider.resource(request.type_name)

        def work(diagnostics: Diagnostics) -> dict[str, Any]:
            state = resource.upgrade(request.version, json.loads(request.raw_state.json))
            return {"upgraded_state": to_dynamic_value(state)}

        return _answer(pb.UpgradeResourceState.Response, work, f"Cannot read the state of {request.type_name}", resource.names)

    def ReadResource(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource = self.provider.resource(request.type_name)
        prior = read_dynamic_value(request.current_state)

        def work(diagnostics: Diagnostics) -> dict[str, Any]:
            return {"new_state": to_dynamic_value(resource.read(prior)), "private": request.private}

        return _answer(pb.ReadResource.Response, work, _what("read", resource, prior), resource.names)

    def PlanResourceChange(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource = self.provider.resource(request.type_name)
        prior = read_dynamic_value(request.prior_state)
        config = read_dynamic_value(request.config)

        def work(diagnostics: Diagnostics) -> dict[str, Any]:
            if read_dynamic_value(request.proposed_new_state) is None:
                return {"planned_state": request.proposed_new_state, "planned_private": request.prior_private}
            plan = plan_change(resource, prior, config, chosen_of(request.prior_private))
            return {
                "planned_state": to_dynamic_value(plan.state),
                "planned_private": request.prior_private,
                "requires_replace": [_to_attribute_path([name]) for name in plan.replaces],
            }

        return _answer(pb.PlanResourceChange.Response, work, _what("plan", resource, config or prior), resource.names)

    def ApplyResourceChange(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource = self.provider.resource(request.type_name)
        prior = read_dynamic_value(request.prior_state)
        planned = read_dynamic_value(request.planned_state)
        verb = "create" if prior is None else "delete" if planned is None else "update"
        config = read_dynamic_value(request.config) or {}
        saved, private = prior, request.planned_private

        def work(diagnostics: Diagnostics) -> dict[str, Any]:
            nonlocal saved, private
            change = Change(self.provider.connection.client(), resource.waiter, config, dict(planned or {}), dict(prior or {}), prior)
            if change.planned.get(HASH) is Unknown:
                change.planned[HASH] = hash_of(secrets_of(resource.fields, config))
            try:
                getattr(resource, verb)(change)
            finally:
                saved = change.saved
            saved = None if planned is None else _kept(planned, change.saved or {})
            private = private_of(resource.fields, config, saved) if saved else b""
            return {}

        answer = _answer(pb.ApplyResourceChange.Response, work, _what(verb, resource, planned or prior), resource.names)
        answer.new_state.CopyFrom(to_dynamic_value(saved))
        answer.private = private
        return answer

    def ImportResourceState(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource = self.provider.resource(request.type_name)

        def work(diagnostics: Diagnostics) -> dict[str, Any]:
            state = to_dynamic_value(resource.import_(request.id))
            return {"imported_resources": [pb.ImportResourceState.ImportedResource(type_name=request.type_name, state=state)]}

        what = f'Cannot import {resource.kind} "{request.id}"'
        return _answer(pb.ImportResourceState.Response, work, what, resource.names)

    def ReadDataSource(self, request: Any, context: grpc.ServicerContext) -> Any:
        source = self.provider.data_source(request.type_name)
        config = read_dynamic_value(request.config)

        def work(diagnostics: Diagnostics) -> dict[str, Any]:
            return {"state": to_dynamic_value(source.read(config))}

        return _answer(pb.ReadDataSource.Response, work, f"Cannot read data source {source.kind}", source.names)

    def StopProvider(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.stop.set()
        return pb.StopProvider.Response()


def _answer(response: Any, work: Work, what: str, attributes: Any) -> Any:
    diagnostics = Diagnostics()
    fields: dict[str, Any] = {}
    try:
        fields = work(diagnostics)
    except Exception as error:
        report(diagnostics, error, what, attributes)
    return response(**fields, diagnostics=diagnostics.to_pb())


def _what(verb: str, resource: Resource, values: Values | None) -> str:
    name = (values or {}).get("name")
    return f"Cannot {verb} {resource.kind}" + (f' "{name}"' if isinstance(name, str) else "")


def _kept(planned: Values, actual: Values) -> Values:
    """Keeps planned values, as Terraform requires; a concurrent change appears in the next plan."""
    return {name: known({name: actual.get(name)})[name] if value is Unknown else value for name, value in planned.items()}
