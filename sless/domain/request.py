"""Stores head and body of an asynchronous call over /fn as text, so that the handler later sees the same request."""

import base64
import json
from dataclasses import dataclass

from sless.domain.event import event_of

_LATIN = "latin-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRequest:
    """`target` is path and query as sent to the instance, `full_path` the path that was called."""

    method: str
    target: bytes
    full_path: bytes
    query: bytes
    headers: list[tuple[bytes, bytes]]
    client: str
    scheme: str
    body: bytes

    def text(self) -> str:
        values = {
            "method": self.method,
            "target": self.target.decode(_LATIN),
            "full_path": self.full_path.decode(_LATIN),
            "query": self.query.decode(_LATIN),
            "headers": [[name.decode(_LATIN), value.decode(_LATIN)] for name, value in self.headers],
            "client": self.client,
            "scheme": self.scheme,
            "body": base64.b64encode(self.body).decode(),
        }
        return json.dumps(values, separators=(",", ":"))

    def event(self) -> str:
        """The event of a run (contract §4) as JSON text. Raises SlessError INVALID_JSON."""
        content_type = next((value for name, value in self.headers if name == b"content-type"), b"")
        return event_of(content_type.decode(_LATIN), self.query.decode(_LATIN), self.body)


def stored_request_of(text: str) -> StoredRequest:
    values = json.loads(text)
    return StoredRequest(
        method=values["method"],
        target=values["target"].encode(_LATIN),
        full_path=values["full_path"].encode(_LATIN),
        query=values["query"].encode(_LATIN),
        headers=[(name.encode(_LATIN), value.encode(_LATIN)) for name, value in values["headers"]],
        client=values["client"],
        scheme=values["scheme"],
        body=base64.b64decode(values["body"]),
    )
