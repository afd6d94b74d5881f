"""The handler's second argument, with the names of sless and of AWS Lambda."""

import os

from .encode import decode_json_text
from .forms import decode_percent, form_pairs_of, multi_of, pairs_of


class Headers(dict):
    """Case-insensitive lookup; stored names are in lower case. Repeated headers are joined with `, ` (cookies with `; `)."""

    __slots__ = ()

    def __getitem__(self, name):
        return dict.__getitem__(self, name.lower())

    def __contains__(self, name):
        return isinstance(name, str) and dict.__contains__(self, name.lower())

    def get(self, name, default=None):
        return dict.get(self, name.lower(), default)


def headers_of(request, separator=", "):
    """All headers except those that sless sends to the runtime; repeated values are joined."""
    headers = {}
    for key, value in request.headers:
        if key.startswith("x-sless-"):
            continue
        if key in headers:
            value = f"{headers[key]}{'; ' if key == 'cookie' else separator}{value}"
        headers[key] = value
    return Headers(headers)


class HttpInfo:
    """`context.http`: the HTTP request behind a call. Costly attributes are computed on first access."""

    def __init__(self, request):
        self._request = request
        self.method = request.method
        self.body = request.body

    def __repr__(self):
        return f"<http {self.method} {self.full_path}>"

    @property
    def raw_path(self):
        return self._request.path

    @property
    def path(self):
        return decode_percent(self._request.path)

    @property
    def full_path(self):
        return self._request.header("x-sless-full-path") or self._request.path

    @property
    def raw_query(self):
        return self._request.query

    @property
    def client_ip(self):
        return self._request.header("x-sless-client-ip") or self._request.peer

    def _once(self, name, make):
        made = self.__dict__.get(name)
        if made is None:
            made = self.__dict__[name] = make()
        return made

    @property
    def headers(self):
        return self._once("_headers", lambda: headers_of(self._request))

    @property
    def query(self):
        return self._once("_query", lambda: dict(pairs_of(self._request.query)))

    @property
    def multi_query(self):
        return self._once("_multi_query", lambda: multi_of(pairs_of(self._request.query)))

    @property
    def multi_form(self):
        return self._once("_multi_form", lambda: multi_of(form_pairs_of(self.body, self._request.header("content-type")) or ()))


class Identity:
    cognito_identity_id = None
    cognito_identity_pool_id = None


class Context:
    """`timeout_sec` is 0 when there is no limit. `http` is None unless the function was called over HTTP."""

    identity = Identity()
    client_context = None

    def __init__(self, settings, call, request):
        self._call = call
        self.request_id = self.aws_request_id = call.request_id
        self.trigger = call.trigger
        self.function_name = settings.function_name
        self.namespace = settings.namespace
        self.version = settings.version
        self.memory_mb = self.memory_limit_in_mb = settings.memory_mb
        self.timeout_sec = settings.timeout_sec
        self.http = HttpInfo(request) if call.trigger == "http" and request is not None else None
        self._message = request.header("x-sless-message") if call.trigger == "event" and request is not None else ""

    def __repr__(self):
        return f"<context {self.function_name} {self.request_id}>"

    @property
    def message(self):
        """Properties of the AMQP message behind an event call, as a dict; None for other calls."""
        return decode_json_text(self._message) if self._message else None

    def remaining_ms(self):
        """Milliseconds until the call times out; 2**53 - 1 when there is no limit."""
        return self._call.remaining_ms()

    get_remaining_time_in_millis = remaining_ms

    @property
    def function_version(self):
        return str(self.version)

    @property
    def invoked_function_arn(self):
        return f"arn:sless:lambda::{self.namespace}:function:{self.function_name}"

    @property
    def log_group_name(self):
        return f"/sless/{self.namespace}/{self.function_name}"

    @property
    def log_stream_name(self):
        return f"{self.version}/{os.getpid()}"

    def log(self, message):
        print(message)
