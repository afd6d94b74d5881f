"""The provider for the library's servicer: its schema, resources and data sources."""

import threading
from collections.abc import Mapping
from typing import Any

from tf.schema import Schema
from tf.utils import Diagnostics

from sless.terraform.connection import FIELDS, Connection
from sless.terraform.data import DataSource, FunctionData, NamespaceData, ServiceData
from sless.terraform.fields import Values
from sless.terraform.job import Job
from sless.terraform.resource import Resource
from sless.terraform.trigger import Trigger
from sless.terraform.version import ADDRESS
from sless.terraform.workload import Function, Service

PREFIX = "sless_"
RESOURCES = (Function, Service, Trigger, Job)
DATA_SOURCES = (FunctionData, ServiceData, NamespaceData)


class SlessProvider:
    """`stop` is set when Terraform is interrupted."""

    attribute_names = frozenset(item.name for item in FIELDS)

    def __init__(self, environ: Mapping[str, str], stop: threading.Event) -> None:
        self.connection = Connection(environ)
        self._resources = {PREFIX + made.kind: made for made in (kind(self.connection, stop) for kind in RESOURCES)}
        self._data_sources = {PREFIX + made.kind: made for made in (kind(self.connection) for kind in DATA_SOURCES)}

    def resource(self, type_name: str) -> Resource:
        return self._resources[type_name]

    def data_source(self, type_name: str) -> DataSource:
        return self._data_sources[type_name]

    # ---- interface of the library's servicer. Its "classes" are our instances, which hold no state of a call.

    def get_model_prefix(self) -> str:
        return PREFIX

    def full_name(self) -> str:
        return ADDRESS

    def get_provider_schema(self, diagnostics: Diagnostics) -> Schema:
        return Schema(attributes=[item.attribute() for item in FIELDS])

    def validate_config(self, diagnostics: Diagnostics, config: Values) -> None:
        return None

    def get_resources(self) -> list[Any]:
        return list(self._resources.values())

    def get_data_sources(self) -> list[Any]:
        return list(self._data_sources.values())

    def get_functions(self) -> list[Any]:
        return []

    def new_resource(self, resource: Any) -> Any:
        return resource

    def new_data_source(self, source: Any) -> Any:
        return source
