"""Data sources: existing resources, read-only."""

from typing import Any

from tf.schema import Schema
from tf.utils import Diagnostics

from sless.client.client import Client, Json
from sless.terraform import attributes
from sless.terraform.attributes import required, status
from sless.terraform.connection import Connection
from sless.terraform.fields import BOOL, NUMBER_MAP, Field, Role, Values


def shown(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """The attributes of a data source: `name`, and the server's fields as read-only ones."""
    found = [item for item in fields if item.name != "name" and not item.local and not item.write_only]
    return (
        required(name="name", text="Name within the namespace."),
        *(
            Field(name=item.name, text=item.text, type=item.type, role=Role.STATUS, sensitive=item.sensitive, api=item.api)
            for item in found
        ),
    )


NAMESPACE_DATA = (
    status(name="id", text="Same as `name`.", api="namespace"),
    status(name="name", text="Namespace of the token's tenant.", api="namespace"),
    status(name="subject", text="Subject of the token.", api="sub"),
    status(name="operator", text="Whether the token may use any namespace.", type=BOOL),
    status(name="counts", text="Number of functions, services, triggers and jobs.", type=NUMBER_MAP),
    status(name="limits", text="Limits of the namespace.", type=NUMBER_MAP),
)


class DataSource:
    """One instance serves all calls, from several threads."""

    kind: str
    text: str
    fields: tuple[Field, ...]

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.names = {item.name: item for item in self.fields}

    def get_name(self) -> str:
        return self.kind

    def get_schema(self) -> Schema:
        return Schema(attributes=[item.attribute() for item in self.fields], description=self.text)

    def validate(self, diagnostics: Diagnostics, type_name: str, config: Values) -> None:
        return None

    def read(self, config: Values) -> Values:
        """Raises ClientError."""
        found = self.find(self.connection.client(), config)
        return {item.name: found.get(item.source) for item in self.fields}

    def find(self, client: Client, config: Values) -> Json:
        raise NotImplementedError


class FunctionData(DataSource):
    kind = "function"
    text = "A function of the namespace."
    fields = shown(attributes.FUNCTION)

    def find(self, client: Client, config: Values) -> Json:
        return client.functions.get(config["name"])


class ServiceData(DataSource):
    kind = "service"
    text = "A service of the namespace."
    fields = shown(attributes.SERVICE)

    def find(self, client: Client, config: Values) -> Json:
        return client.services.get(config["name"])


class NamespaceData(DataSource):
    kind = "namespace"
    text = "The namespace of the token's tenant."
    fields = NAMESPACE_DATA

    def find(self, client: Client, config: Values) -> Json:
        usage: dict[str, Any] = client.usage()
        return client.whoami() | {"counts": usage["counts"], "limits": usage["limits"]}
