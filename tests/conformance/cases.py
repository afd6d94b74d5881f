"""Requests and the answers that every runtime must give: status, headers, body, log lines.

A case names the handler as `group.function`; each runtime has that function in `handlers/<runtime>/<group>.<suffix>`.
`only` limits a case to some runtimes, `ways` to some ways of calling them: directly, or through the proxy, where `proxied_has` lists the
values that differ. Tests of timing and of several connections are in `test_connections.py` and `test_proxied.py`; tests that need builds
and a backend are in `test_product.py`.
"""

import base64
import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

UNSET: Any = object()
PYTHON = ("python3.11",)
WITH_SETS = ("python3.11", "nodejs20")
Headers = tuple[tuple[str, str], ...]


class Way(StrEnum):
    """How a case's request reaches the runtime."""

    DIRECT = "direct"
    """Over the runtime's socket, as the proxy speaks to it."""
    PROXIED = "proxied"
    """Over /fn."""
    SLOW = "slow-path"
    """Over /fn, with the proxy's fast path for small calls disabled."""


DIRECT_ONLY = (Way.DIRECT,)
"""For headers that only sless sends to a runtime."""
THROUGH = (Way.PROXIED, Way.SLOW)
"""For changes that the proxy makes to a request."""

JSON_TYPE = ("Content-Type", "application/json")
FORM_TYPE = ("Content-Type", "application/x-www-form-urlencoded")
FORM_1251 = ("Content-Type", "application/x-www-form-urlencoded; charset=windows-1251")
TEXT = "text/plain; charset=utf-8"
BINARY = "application/octet-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request and the expected answer.

    `event` is sent as a JSON body (instead of `body`); `raw` replaces the whole request by bytes. `has` maps dotted paths into the JSON
    answer to values (UNSET: nothing there); `headers_out` maps names to the value, to a tuple of values (repeated header), to `str` (any
    value) or to None (must be absent); `error` is a regular expression that the answer's `error` must contain, which must start with
    X-Sless-Error-Message; `logs` are (stream, text) pairs, exactly, `log_has` regular expressions.

    Through the proxy, `proxied_has` replaces items of `has` (`{fn}` in its texts is the function's path), a `fault` of 400 or 502 is the
    answer's X-Sless-Error, and the text of X-Sless-Error-Message is in the call's record instead.
    """

    id: str
    handler: str
    method: str = "POST"
    target: str = "/"
    headers: Headers = ()
    body: bytes | None = None
    event: Any = UNSET
    raw: bytes | None = None
    env: dict[str, str] = field(default_factory=dict)
    status: int = 200
    json: Any = UNSET
    has: dict[str, Any] = field(default_factory=dict)
    text: str | None = None
    content: bytes | None = None
    headers_out: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    fault: str | None = None
    function_error: bool = False
    logs: tuple[tuple[str, str], ...] | None = None
    log_has: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    ways: tuple[Way, ...] = tuple(Way)
    proxied_has: dict[str, Any] = field(default_factory=dict)

    def request_headers(self) -> list[tuple[str, str]]:
        return [*([JSON_TYPE] if self.event is not UNSET else []), *self.headers]

    def request_body(self) -> bytes | None:
        return self.body if self.event is UNSET else json.dumps(self.event).encode()


def event_case(case_id: str, expected: Any, **request: Any) -> Case:
    """The handler echoes its event; `expected` is that event."""
    return Case(id=f"event-{case_id}", handler="events.echo", json={"event": expected}, **request)


def http_case(case_id: str, has: dict[str, Any], **request: Any) -> Case:
    """The handler shows event, `context.http` and context."""
    return Case(id=f"context-{case_id}", handler="events.show", has=has, **request)


def result_case(form: str, **expected: Any) -> Case:
    """`results.form` returns the named form."""
    return Case(id=f"result-{form}", handler="results.form", event={"form": form}, **expected)


def bad_result_case(form: str, error: str, **expected: Any) -> Case:
    return result_case(form, status=502, fault="bad_result", error=error, headers_out={"Content-Type": "application/json"}, **expected)


def failure_case(kind: str, error: str, error_type: str | None = None, **expected: Any) -> Case:
    """`errors.fail` fails in the named way."""
    has = {"type": error_type} if error_type else {}
    return Case(
        id=f"failure-{kind}", handler="errors.fail", event={"kind": kind}, status=500, function_error=True, error=error, has=has, **expected
    )


def log_case(kind: str, *lines: tuple[str, str], **expected: Any) -> Case:
    """`logs.write` writes in the named way and returns "done"."""
    return Case(id=f"log-{kind}", handler="logs.write", event={"kind": kind}, text="done", logs=tuple(lines) if lines else None, **expected)


MULTIPART = (
    b'--XX\r\nContent-Disposition: form-data; name="title"\r\n\r\nGr\xc3\xbc\xc3\x9fe\r\n'
    b'--XX\r\nContent-Disposition: form-data; name="tag"\r\n\r\none\r\n'
    b'--XX\r\nContent-Disposition: form-data; name="tag"\r\n\r\ntwo\r\n'
    b'--XX\r\nContent-Disposition: form-data; name="note"; filename="n.txt"\r\nContent-Type: text/plain\r\n\r\nhello\nthere\r\n'
    b'--XX\r\nContent-Disposition: form-data; name="raw"; filename="r.bin"\r\nContent-Type: application/octet-stream\r\n\r\n'
    b"\xff\x00\r\n\r\n"
    b"--XX--\r\n"
)
NAMED = {
    "filename": "text",
    "a; filename=b": "text",
    'q"uo\\te"': "text",
    "": "text",
    "f": {"filename": "x; name=y.txt", "content_type": "application/octet-stream", "body": "file"},
    "wide": {"filename": "дом.txt", "content_type": "application/octet-stream", "body": "file"},
    "none": {"filename": "", "content_type": "application/octet-stream", "body": ""},
}
_DISPOSITIONS = (
    'name="filename"|text',
    'name="a; filename=b"|text',
    'name="q%22uo\\\\te\\""|text',
    'name=""|text',
    'filename="x; name=y.txt"; NAME = f|file',
    "name=wide; filename*=UTF-8''%D0%B4%D0%BE%D0%BC.txt|file",
    'name="none"; filename=""|',
)
MULTIPART_NAMES = (
    "".join("--XX\r\nContent-Disposition: form-data; {}\r\n\r\n{}\r\n".format(*item.split("|")) for item in _DISPOSITIONS) + "--XX--\r\n"
).encode()
MULTIPART_TYPE = ("Content-Type", "multipart/form-data; boundary=XX")
CHUNKED_JSON = b'4;x=y\r\n{"a"\r\n4\r\n: 1}\r\n0\r\nTrailer: 1\r\n\r\n'
NOTE_FILE = {"filename": "n.txt", "content_type": "text/plain", "body": "hello\nthere"}
RAW_FILE = {
    "filename": "r.bin",
    "content_type": "application/octet-stream",
    "body": base64.b64encode(b"\xff\x00\r\n").decode(),
    "isBase64Encoded": True,
}

EVENTS = [
    event_case("json-object", {"name": "Ada", "n": [1, 2.5, None, True]}, event={"name": "Ada", "n": [1, 2.5, None, True]}),
    event_case("json-array", [1, "two"], event=[1, "two"]),
    event_case("json-number", 42, event=42),
    event_case("json-null", None, event=None),
    event_case("json-true", True, event=True),
    event_case("json-string", "just text", event="just text"),
    event_case("json-unicode", {"ключ": "日本 🎉"}, headers=(JSON_TYPE,), body='{"ключ": "日本 🎉"}'.encode()),
    event_case("json-byte-order-mark", {"a": 1}, headers=(JSON_TYPE,), body=b'\xef\xbb\xbf{"a": 1}'),
    event_case("json-suffix-type", {"a": 1}, headers=(("Content-Type", "application/cloudevents+json; charset=utf-8"),), body=b'{"a": 1}'),
    event_case("json-over-query", {"a": 1}, target="/?a=2&b=3", event={"a": 1}),
    event_case("curl-d-json", {"name": "Ada"}, headers=(FORM_TYPE,), body=b'{"name": "Ada"}'),
    event_case("curl-d-json-array", [1, 2], headers=(FORM_TYPE,), body=b"[1, 2]"),
    event_case("json-without-type", {"a": 1}, body=b' {"a": 1}\n'),
    event_case("form", {"a": "1 2", "b": "ü", "c": ""}, headers=(FORM_TYPE,), body=b"a=0&a=1+2&b=%C3%BC&c="),
    event_case("form-charset", {"имя": "Тверь +"}, headers=(FORM_1251,), body="имя=Тверь %2B".encode("cp1251")),
    event_case("form-charset-escaped", {"a": "Тверь"}, headers=(FORM_1251,), body=b"a=%D2%E2%E5%F0%FC"),
    event_case("form-charset-unknown", {"a": "ü"}, headers=(("Content-Type", FORM_TYPE[1] + "; charset=no-such"),), body=b"a=%C3%BC"),
    event_case(
        "multipart-charset",
        {"a": "Тверь"},
        headers=(MULTIPART_TYPE,),
        body=b'--XX\r\nContent-Disposition: form-data; name="a"\r\nContent-Type: text/plain; charset=windows-1251\r\n\r\n'
        b"\xd2\xe2\xe5\xf0\xfc\r\n--XX--\r\n",
    ),
    event_case(
        "encoded", {"body": "H4sI", "isBase64Encoded": True}, headers=(JSON_TYPE, ("Content-Encoding", "gzip")), body=b"\x1f\x8b\x08"
    ),
    event_case("identity-encoding", 1, headers=(JSON_TYPE, ("Content-Encoding", "identity")), body=b"1"),
    event_case("form-that-is-a-number", {"12": ""}, headers=(FORM_TYPE,), body=b"12"),
    event_case("form-broken-json", {"{a": "1"}, headers=(FORM_TYPE,), body=b"{a=1"),
    event_case(
        "multipart",
        {"title": "Grüße", "tag": "two", "note": NOTE_FILE, "raw": RAW_FILE},
        headers=(MULTIPART_TYPE,),
        body=MULTIPART,
    ),
    event_case("query", {"a": "2", "b": "x y", "c": ""}, method="GET", target="/?a=1&a=2&b=x%20y&c="),
    event_case("query-that-starts-with-a-question-mark", {"?a": "1"}, method="GET", target="/??a=1"),
    event_case("form-that-starts-with-a-question-mark", {"?a": "1"}, headers=(FORM_TYPE,), body=b"?a=1"),
    event_case("form-that-ends-with-a-line", {"a": "1\n"}, headers=(FORM_TYPE,), body=b"a=1\n"),
    event_case("multipart-names", NAMED, headers=(MULTIPART_TYPE,), body=MULTIPART_NAMES),
    event_case("query-when-body-is-empty", {"q": "1"}, target="/?q=1", headers=(JSON_TYPE,), body=b""),
    event_case("nothing", {}, method="GET"),
    event_case("text", {"body": "plain {text}"}, headers=(("Content-Type", "text/plain"),), body=b"plain {text}"),
    event_case("text-that-looks-like-json", {"body": "[1]"}, headers=(("Content-Type", "text/plain"),), body=b"[1]"),
    event_case(
        "binary",
        {"body": base64.b64encode(b"\xff\xfe\x00").decode(), "isBase64Encoded": True},
        headers=(("Content-Type", BINARY),),
        body=b"\xff\xfe\x00",
    ),
    event_case("untyped-text", {"body": "hello"}, body=b"hello"),
    event_case(
        "chunked",
        {"a": 1},
        headers=(JSON_TYPE, ("Transfer-Encoding", "chunked")),
        body=CHUNKED_JSON,
    ),
    Case(
        id="event-invalid-json",
        handler="logs.write",
        headers=(JSON_TYPE,),
        body=b'{"kind": "print"',
        status=400,
        fault="invalid_json",
        error="JSON",
        logs=(),
    ),
    Case(
        id="event-json-nan", handler="events.echo", headers=(JSON_TYPE,), body=b'{"a": NaN}', status=400, fault="invalid_json", error="JSON"
    ),
    Case(
        id="event-json-trailing",
        handler="events.echo",
        headers=(JSON_TYPE,),
        body=b'{"a": 1} {"b": 2}',
        status=400,
        fault="invalid_json",
        error="JSON",
    ),
    Case(
        id="event-json-not-utf8",
        handler="events.echo",
        headers=(JSON_TYPE,),
        body=b'{"a": "\xff"}',
        status=400,
        fault="invalid_json",
        error="JSON",
    ),
]

ODD_VALUE = '\'single\' "double" $HOME ${X} `x` \\n a\nb\t{"json": [1]} Привет 🎉 '

CONTEXT = [
    http_case(
        "of-a-call",
        {
            "http.method": "PUT",
            "http.path": "/a b/ü/c",
            "http.raw_path": "/a%20b/%C3%BC%2Fc",
            "http.full_path": "/fn/sless-x/conformance/a%20b/%C3%BC%2Fc",
            "http.raw_query": "x=1&x=2&y=%C3%BC+&flag",
            "http.query": {"x": "2", "y": "ü ", "flag": ""},
            "http.multi_query": {"x": ["1", "2"], "y": ["ü "], "flag": [""]},
            "http.client_ip": "192.0.2.7",
            "http.body_base64": base64.b64encode(b'{"k": 1}').decode(),
            "context.request_id": "req-1",
            "context.aws_request_id": "req-1",
            "context.trigger": "http",
            "context.function_name": "conformance",
            "context.namespace": "sless-0123456789abcdef",
            "context.version": 7,
            "context.function_version": "7",
            "context.invoked_function_arn": "arn:sless:lambda::sless-0123456789abcdef:function:conformance",
            "context.log_group_name": "/sless/sless-0123456789abcdef/conformance",
            "context.memory_limit_in_mb": 128,
            "context.log_stream_is_the_process": True,
            "context.memory_mb": 128,
            "context.timeout_sec": 30,
            "context.remaining_is_plausible": True,
            "context.aws_remaining_is_plausible": True,
            "event": {"k": 1},
        },
        method="PUT",
        target="/a%20b/%C3%BC%2Fc?x=1&x=2&y=%C3%BC+&flag",
        event={"k": 1},
        headers=(
            ("X-Sless-Invocation-Id", "inv-1"),
            ("X-Request-Id", "req-1"),
            ("X-Sless-Trigger", "http"),
            ("X-Sless-Full-Path", "/fn/sless-x/conformance/a%20b/%C3%BC%2Fc"),
            ("X-Sless-Timeout-Ms", "25000"),
            ("X-Sless-Client-Ip", "192.0.2.7"),
        ),
        proxied_has={"http.full_path": "{fn}/a%20b/%C3%BC%2Fc", "http.client_ip": "127.0.0.1"},
    ),
    http_case(
        "forged-trigger",
        {"context.trigger": "http", "http.method": "POST", "event": {"a": 1}, "context.remaining_is_plausible": True},
        event={"a": 1},
        headers=(("X-Sless-Trigger", "cron"), ("X-Sless-Timeout-Ms", "1"), ("X-Sless-Full-Path", "/forged")),
        ways=THROUGH,
        proxied_has={"http.full_path": "{fn}/"},
    ),
    http_case(
        "control-is-not-for-callers",
        {"http.path": "/_sless/health", "http.sless_headers": []},
        method="GET",
        target="/_sless/health",
        headers=(("X-Sless-Control", "1"),),
        ways=THROUGH,
    ),
    http_case(
        "query-edges",
        {
            "http.query": {"a": "1", "b": "", "c": "1 2", "d": "x/y", "город": "Тверь", "e": "+", "f": "=1"},
            "http.multi_query": {
                "a": ["", "1"],
                "b": [""],
                "c": ["1 2"],
                "d": ["x/y"],
                "город": ["Тверь"],
                "e": ["", "+"],
                "f": ["=1"],
            },
            "event": {"a": "1", "b": "", "c": "1 2", "d": "x/y", "город": "Тверь", "e": "+", "f": "=1"},
        },
        method="GET",
        target="/?a=&a=1&b&c=1+2&d=x%2Fy&%D0%B3%D0%BE%D1%80%D0%BE%D0%B4=%D0%A2%D0%B2%D0%B5%D1%80%D1%8C&e=&e=%2B&f==1",
    ),
    http_case(
        "path-edges",
        {"http.path": "/город/a+b/x/y//z", "http.raw_path": "/%D0%B3%D0%BE%D1%80%D0%BE%D0%B4/a+b/x%2Fy//z", "http.query": {}},
        method="GET",
        target="/%D0%B3%D0%BE%D1%80%D0%BE%D0%B4/a+b/x%2Fy//z",
    ),
    http_case(
        "header-forms",
        {
            "http.headers.x-empty": "",
            "http.headers.x-long": "l" * 8000,
            "http.headers.x-wide": "Gr\u00fc\u00dfe",
            "http.headers.x-order": "3, 1, 2",
            "http.headers.cookie": "z=1; a=2; z=3",
        },
        method="GET",
        headers=(
            ("X-Empty", ""),
            ("X-Long", "l" * 8000),
            ("X-Wide", "Grüße"),
            ("X-Order", "3"),
            ("Cookie", "z=1"),
            ("X-Order", "1"),
            ("Cookie", "a=2; z=3"),
            ("X-Order", "2"),
        ),
    ),
    http_case(
        "forwarded",
        {
            "http.headers.x-forwarded-for": "127.0.0.1",
            "http.headers.x-forwarded-host": "fn.example",
            "http.headers.x-forwarded-proto": "http",
            "http.headers.x-request-id": "mine-1",
            "http.headers.x-stays": "1",
            "http.headers.x-custom": UNSET,
            "http.headers.connection": UNSET,
            "http.headers.te": UNSET,
            "http.headers.x_under": UNSET,
            "http.client_ip": "127.0.0.1",
            "context.request_id": "mine-1",
        },
        method="GET",
        headers=(
            ("X-Forwarded-For", "192.0.2.9"),
            ("X-Forwarded-Proto", "https"),
            ("X-Request-Id", "mine-1"),
            ("Connection", "X-Custom"),
            ("X-Custom", "goes with the connection"),
            ("TE", "trailers"),
            ("X_Under", "is taken for X-Under elsewhere"),
            ("X-Stays", "1"),
        ),
        ways=THROUGH,
    ),
    http_case(
        "headers",
        {
            "http.header_any_case": "Value",
            "http.headers.x-repeated": "1, 2",
            "http.headers.cookie": "a=1; b=2",
            "http.sless_headers": [],
            "http.headers.host": "fn.example",
        },
        method="GET",
        headers=(
            ("X-CuStom", "Value"),
            ("X-Repeated", "1"),
            ("X-Repeated", "2"),
            ("Cookie", "a=1"),
            ("Cookie", "b=2"),
            ("X-Sless-Client-Ip", "192.0.2.7"),
            ("X-Sless-Secret-Thing", "no"),
        ),
    ),
    http_case(
        "forms",
        {"http.multi_form": {"a": ["1", "2"], "b": ["x y"]}, "event": {"a": "2", "b": "x y"}},
        headers=(FORM_TYPE,),
        body=b"a=1&a=2&b=x+y",
    ),
    http_case(
        "multipart",
        {"http.multi_form": {"title": ["Grüße"], "tag": ["one", "two"], "note": [NOTE_FILE], "raw": [RAW_FILE]}},
        headers=(MULTIPART_TYPE,),
        body=MULTIPART,
    ),
    http_case("no-form", {"http.multi_form": {}}, event={"a": 1}),
    http_case(
        "by-hand",
        {
            "http.path": "/p",
            "http.full_path": "/p",
            "context.trigger": "http",
            "context.request_id_is_set": True,
            "context.unlimited": True,
        },
        method="GET",
        target="/p?x=1",
        ways=DIRECT_ONLY,
    ),
    http_case(
        "request-id-falls-back",
        {"context.request_id": "inv-2"},
        method="GET",
        headers=(("X-Sless-Invocation-Id", "inv-2"),),
        ways=DIRECT_ONLY,
    ),
    *(
        http_case(
            f"trigger-{trigger}",
            {"http": None, "event": {"a": 1}, "context.trigger": trigger, "context.message": None},
            event={"a": 1},
            headers=(("X-Sless-Trigger", trigger),),
            ways=DIRECT_ONLY,
        )
        for trigger in ("invoke", "cron", "event", "job")
    ),
    http_case(
        "message",
        {"http": None, "event": {"a": 1}, "context.message": {"queue": "q", "redelivered": True, "headers": {"ü": ["x", 1.5, None]}}},
        event={"a": 1},
        headers=(
            ("X-Sless-Trigger", "event"),
            ("X-Sless-Message", '{"queue": "q", "redelivered": true, "headers": {"\\u00fc": ["x", 1.5, null]}}'),
        ),
        ways=DIRECT_ONLY,
    ),
    http_case(
        "message-is-not-for-callers",
        {"context.message": None, "context.trigger": "http"},
        event={"a": 1},
        headers=(("X-Sless-Message", '{"queue": "forged"}'),),
    ),
    http_case("empty-env", {"context.timeout_sec": 0, "context.unlimited": True}, method="GET", env={"SLESS_TIMEOUT_SEC": "0"}),
    Case(
        id="environment",
        handler="events.environment",
        method="GET",
        env={"SLESS_CONCURRENCY": "3", "SLESS_MINE": "yes", "GREETING": "hi"},
        has={
            "sless": [
                "SLESS_ENTRYPOINT",
                "SLESS_FUNCTION_NAME",
                "SLESS_MEMORY_MB",
                "SLESS_MINE",
                "SLESS_NAMESPACE",
                "SLESS_TIMEOUT_SEC",
                "SLESS_VERSION",
            ],
            "greeting": "hi",
            "in_code_dir": True,
        },
    ),
    *(
        Case(id=f"environment-{kind}", handler="events.environment", method="GET", env={"GREETING": value}, has={"greeting": value})
        for kind, value in {"odd": ODD_VALUE, "empty": ""}.items()
    ),
    Case(id="entrypoint-in-a-folder", handler="pkg/mod.fn", event={"n": 2}, json={"double": 4}),
    Case(id="handler-without-context", handler="events.only_event", event={"n": 2}, json=2),
    Case(
        id="handler-async",
        handler="events.echo_async",
        event={"n": 2},
        has={"event": {"n": 2}, "request_id": "r9"},
        headers=(("X-Request-Id", "r9"),),
    ),
    Case(
        id="control-is-the-users-without-header",
        handler="events.show",
        method="GET",
        target="/_sless/health",
        has={"http.path": "/_sless/health"},
    ),
]

PNG = bytes(range(256))

RESULTS = [
    result_case("object", json={"a": 1, "b": [True, None]}, headers_out={"Content-Type": "application/json", "Content-Length": str}),
    result_case("array", json=[1, 2], headers_out={"Content-Type": "application/json"}),
    result_case("number", json=42),
    result_case("boolean", json=False),
    result_case("text", text="Grüße", headers_out={"Content-Type": TEXT, "Content-Length": "7"}),
    result_case("empty_text", text="", headers_out={"Content-Type": TEXT, "Content-Length": "0"}),
    result_case("binary", content=PNG, headers_out={"Content-Type": BINARY, "Content-Length": "256"}),
    result_case("nothing", status=204, content=b"", headers_out={"Content-Length": None, "Transfer-Encoding": None}),
    result_case(
        "status",
        status=201,
        text="made",
        headers_out={"X-Made": "yes", "X-Count": "3", "Content-Type": TEXT},
    ),
    result_case("status_text", status=404, text="no", headers_out={"X-Sless-Function-Error": None, "X-Sless-Fault": None}),
    result_case("status_only", status=202, content=b"", headers_out={"Content-Length": "0"}),
    result_case("status_object_body", status=200, json={"ok": True}, headers_out={"Content-Type": "application/json"}),
    result_case("status_binary", content=PNG, headers_out={"Content-Type": "image/png"}),
    result_case("status_base64", content=PNG, headers_out={"Content-Type": "image/png"}),
    result_case("status_html", text="<p>hi</p>", headers_out={"Content-Type": "text/html"}),
    result_case("multi_headers", text="ok", headers_out={"X-Many": ("1", "2"), "Set-Cookie": ("a=1; Path=/", "b=2")}),
    result_case("multi_over_single", text="ok", headers_out={"X-Many": ("1", "2"), "X-One": "1"}),
    result_case("latin_header", text="日本", headers_out={"X-Wide": "Grüße", "Content-Length": "6"}),
    result_case("base64_text_flag", text="aGk=", headers_out={"Content-Type": TEXT}),
    result_case("base64_nothing", content=b""),
    result_case("bodiless_stream", status=204, content=b"", headers_out={"Transfer-Encoding": None, "Content-Length": None}),
    result_case("list_header", text="ok", headers_out={"X-Many": ("1", "2")}),
    result_case("status_500", status=500, text="own failure", headers_out={"X-Sless-Function-Error": None}),
    result_case("status_304", status=304, content=b"", headers_out={"Content-Length": None}),
    result_case(
        "hop_headers",
        text="ok",
        headers_out={
            "X-Sless-Error": None,
            "X-Sless-Fault": None,
            "Keep-Alive": None,
            "Transfer-Encoding": None,
            "Content-Length": "2",
            "X-Kept": "1",
            "X-Named": None,
        },
    ),
    result_case("redirect", status=302, content=b"", headers_out={"Location": "/elsewhere?a=b"}),
    bad_result_case("status_too_high", "statusCode.*600"),
    bad_result_case("status_too_low", "statusCode.*199"),
    bad_result_case("status_word", "statusCode.*teapot"),
    bad_result_case("status_true", "statusCode"),
    bad_result_case("header_name", "header.*bad name"),
    bad_result_case("header_newline", "header.*X-Split"),
    bad_result_case("header_wide", "header.*X-Wide"),
    bad_result_case("headers_not_object", "headers"),
    bad_result_case("bad_base64", "base64"),
    bad_result_case("base64_object", "base64"),
    result_case("dates", has={"when": "2026-01-31T09:26:53.589000+00:00", "day": "2026-01-31"}, only=PYTHON),
    result_case(
        "rich",
        json={"id": "12345678-1234-5678-1234-567812345678", "price": 1.5, "count": 3, "raw": "/wA=", "point": {"x": 1, "y": [2]}},
        only=PYTHON,
    ),
    result_case("separators", text='{"a": [1, 2], "b": "\\u00fc"}', only=PYTHON),
    result_case("pair", status=418, text="short", only=PYTHON),
    result_case("triple", status=201, json={"a": 1}, headers_out={"X-T": "1"}, only=PYTHON),
    result_case("long_tuple", json=[1, 2, 3, 4], only=PYTHON),
    bad_result_case("pair_bad_status", "status.*nope", only=PYTHON),
    result_case("bytearray", content=b"ab", headers_out={"Content-Type": BINARY}, only=PYTHON),
    Case(
        id="result-head",
        handler="results.form",
        method="HEAD",
        target="/?form=text",
        content=b"",
        headers_out={"Content-Length": "7", "Content-Type": TEXT},
    ),
    Case(
        id="result-head-of-a-stream",
        handler="results.form",
        method="HEAD",
        target="/?form=stream",
        content=b"",
        headers_out={"Content-Length": None, "Content-Type": TEXT},
    ),
]

UNSERIALIZABLE = [
    result_case("nan", status=500, fault="result_not_serializable", function_error=True, error=r"items\[1\]\.ratio.*NaN"),
    result_case("infinity", status=500, fault="result_not_serializable", function_error=True, error="Infinity"),
    result_case("set", status=500, fault="result_not_serializable", function_error=True, error=r"(?i)tags.*set", only=WITH_SETS),
    result_case("cycle", status=500, fault="result_not_serializable", function_error=True, error=r"self.*(cycle|itself)"),
    result_case("deep_cycle", status=500, fault="result_not_serializable", function_error=True, error=r"a\[0\]\.back.*(cycle|itself)"),
    result_case("nan_body", status=500, fault="result_not_serializable", function_error=True, error="NaN"),
    result_case("strange", status=500, fault="result_not_serializable", function_error=True, error="value.*(complex|function|bigint)"),
]

FAILURES = [
    failure_case("raise", "went wrong: 7", log_has=("went wrong: 7", "errors\\.")),
    failure_case("raise_async", "went wrong later", log_has=("went wrong later",)),
    failure_case("raise_empty", "Error", log_has=("Error",)),
    failure_case("raise_unicode", "schiefgegangen: ü 🎉"),
    failure_case("raise_long", "xxxxx"),
    failure_case("too_large", "MemoryError|out of range"),
    failure_case("exit", "function exited with code 3", only=PYTHON),
    failure_case("exit_zero", "function exited with code 0", only=PYTHON),
    failure_case("division", "division by zero", "ZeroDivisionError", only=PYTHON),
    failure_case("exit_text", "function exited with code 1", log_has=("goodbye",), only=PYTHON),
    failure_case("interrupt", "KeyboardInterrupt", "KeyboardInterrupt", only=PYTHON),
    failure_case("deep", "recursion", "RecursionError", only=PYTHON),
    failure_case("group", "two of them", "ExceptionGroup", only=PYTHON),
    failure_case("bad_str", "BadText", "BadText", only=PYTHON),
    failure_case("exit_async", "function exited with code 4", only=PYTHON),
]

LOGS = [
    log_case("print", ("stdout", "one"), ("stdout", "two")),
    log_case("error_stream", ("stderr", "warning")),
    log_case("partial", ("stdout", "no newline")),
    log_case("many_lines", ("stdout", "a"), ("stdout", ""), ("stdout", "b")),
    log_case("crlf", ("stdout", "windows"), ("stdout", "line")),
    log_case("ansi", ("stdout", "red and title plain")),
    log_case("unicode", ("stdout", "Grüße 日本 🎉")),
    log_case("json_text", ("stdout", '{"level": "info", "quote": "\\""}')),
    log_case("control_characters", ("stdout", "tab\there \x01 end")),
    log_case("long_line", ("stdout", "x" * 16384 + " …[cut]"), ("stdout", "after")),
    log_case("invalid_utf8", ("stdout", "bad \ufffd byte")),
    log_case("child", ("stdout", "from a child")),
    log_case("raw_descriptor", ("stdout", "raw out"), ("stderr", "raw err")),
    log_case("later", ("stdout", "from a timer"), log_has=()),
    log_case("raw_rest", ("stdout", "raw without newline"), only=PYTHON),
    log_case("buffer", ("stdout", "bytes"), only=PYTHON),
    log_case("thread", ("stdout", "from a thread"), only=PYTHON),
    log_case("threads_apart", ("stdout", "whole"), ("stdout", "in two pieces"), only=PYTHON),
    log_case("pool", ("stdout", "from a pool"), only=PYTHON),
    log_case("logging", ("stderr", "WARNING careful"), ("stderr", "INFO quiet"), only=PYTHON),
    log_case("order", *(("stdout", f"{kind} {i}") for i in range(20) for kind in ("raw", "print", "child")), only=PYTHON),
    log_case("fork", ("stdout", "parent"), ("stdout", "forked"), only=PYTHON),
    log_case("wrapped", ("stdout", "wrapped"), only=PYTHON),
    log_case("surrogate", ("stdout", "odd ? char"), only=PYTHON),
]

STREAMS = [
    Case(
        id="stream-text",
        handler="streams.stream",
        event={"kind": "text"},
        text="one two three",
        headers_out={"Content-Type": TEXT, "Transfer-Encoding": "chunked", "Content-Length": None},
    ),
    Case(
        id="stream-binary",
        handler="streams.stream",
        event={"kind": "binary"},
        content=b"\x00\xff" * 3,
        headers_out={"Content-Type": BINARY},
    ),
    Case(
        id="stream-async", handler="streams.stream", event={"kind": "async"}, text="one two", headers_out={"Transfer-Encoding": "chunked"}
    ),
    Case(
        id="stream-status",
        handler="streams.stream",
        event={"kind": "status"},
        status=207,
        text="ab",
        headers_out={"Content-Type": "text/csv", "X-S": "1"},
    ),
    Case(id="stream-empty", handler="streams.stream", event={"kind": "empty"}, content=b""),
    Case(id="stream-large", handler="streams.stream", event={"kind": "large"}, content=b"z" * (3 * 1024 * 1024)),
    Case(
        id="stream-fails-at-once",
        handler="streams.stream",
        event={"kind": "fails_at_once"},
        status=500,
        function_error=True,
        error="before the first",
    ),
    Case(
        id="stream-wrong-chunk",
        handler="streams.stream",
        event={"kind": "wrong_chunk"},
        status=500,
        function_error=True,
        error="(?i)chunk.*(dict|object)",
    ),
    Case(id="stream-head", handler="streams.stream", method="HEAD", target="/?kind=text", content=b""),
    Case(id="stream-generator-handler", handler="streams.generate", event={"n": 3}, text="0,1,2,"),
    Case(id="stream-async-generator-handler", handler="streams.generate_async", event={"n": 3}, text="0,1,2,"),
    Case(id="stream-logs", handler="streams.stream", event={"kind": "logs"}, text="ab", logs=(("stdout", "log a"), ("stdout", "log b"))),
    Case(id="stream-file", handler="streams.stream", event={"kind": "file"}, content=b"f" * 200_000, only=PYTHON),
]


def raw_case(case_id: str, raw: bytes, **expected: Any) -> Case:
    return Case(id=f"wire-{case_id}", handler="events.echo", raw=raw, **expected)


WIRE = [
    raw_case("no-version", b"GET /\r\n\r\n", status=400),
    raw_case("garbage", b"\x16\x03\x01\x02\x00\x01\r\n\r\n", status=400),
    raw_case("bad-length", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", status=400),
    raw_case("signed-length", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx", status=400),
    raw_case("two-lengths", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", status=400),
    raw_case(
        "length-and-chunked", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status=400
    ),
    raw_case("bad-chunk", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nxx\r\n0\r\n\r\n", status=400),
    raw_case("bad-header-name", b"GET / HTTP/1.1\r\nHost: a\r\nbad name: x\r\n\r\n", status=400),
    raw_case("header-without-colon", b"GET / HTTP/1.1\r\nHost: a\r\nnocolon\r\n\r\n", status=400),
    raw_case(
        "http-1.0",
        b"POST / HTTP/1.0\r\nContent-Length: 9\r\nContent-Type: application/json\r\n\r\n" + b'{"a": 10}',
        json={"event": {"a": 10}},
        headers_out={"Transfer-Encoding": None},
    ),
    raw_case("expect-continue", b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n42", json={"event": 42}),
    raw_case("lower-case-and-space", b"POST / HTTP/1.1\r\nhost:a\r\ncontent-length:   2  \r\n\r\n42", json={"event": 42}),
]

AWS = {"SLESS_EVENT_FORMAT": "aws-http-v2"}
AWS_V1 = {"SLESS_EVENT_FORMAT": "aws-http-v1"}
AWS_CASES = [
    Case(
        id="aws-event",
        handler="aws.handler",
        env=AWS,
        method="POST",
        target="/items/a%20b?x=1&x=2&y=%C3%BC",
        headers=(
            ("X-Request-Id", "req-7"),
            ("X-Sless-Client-Ip", "192.0.2.7"),
            ("User-Agent", "curl/8"),
            ("X-Many", "1, 2"),
            ("X-Many", "3"),
            ("Cookie", "a=1; b=2"),
            JSON_TYPE,
        ),
        body=b'{"n": 1}',
        status=201,
        has={
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": "/items/a%20b",
            "rawQueryString": "x=1&x=2&y=%C3%BC",
            "cookies": ["a=1", "b=2"],
            "headers.cookie": UNSET,
            "headers.x-many": "1, 2,3",
            "headers.content-type": "application/json",
            "queryStringParameters": {"x": "1,2", "y": "ü"},
            "requestContext.http.method": "POST",
            "requestContext.http.path": "/items/a%20b",
            "requestContext.http.protocol": "HTTP/1.1",
            "requestContext.http.sourceIp": "192.0.2.7",
            "requestContext.http.userAgent": "curl/8",
            "requestContext.requestId": "req-7",
            "requestContext.accountId": "anonymous",
            "requestContext.apiId": "conformance",
            "requestContext.domainPrefix": "fn",
            "requestContext.stage": "$default",
            "requestContext.domainName": "fn.example",
            "body": '{"n": 1}',
            "isBase64Encoded": False,
        },
        headers_out={"X-From": "lambda", "Set-Cookie": ("c=3",)},
        proxied_has={"requestContext.http.sourceIp": "127.0.0.1"},
    ),
    Case(
        id="aws-query-and-cookies-of-nothing",
        handler="aws.handler",
        env=AWS,
        method="GET",
        target="/?&",
        headers=(("Cookie", ""),),
        status=201,
        has={"rawQueryString": "&", "queryStringParameters": UNSET, "cookies": [], "headers.cookie": UNSET},
    ),
    Case(
        id="aws-binary-body",
        handler="aws.handler",
        env=AWS,
        body=b"\xff\x00",
        headers=(("Content-Type", BINARY),),
        status=201,
        has={"body": "/wA=", "isBase64Encoded": True},
    ),
    Case(
        id="aws-no-body",
        handler="aws.keys",
        env=AWS,
        method="GET",
        json=["headers", "isBase64Encoded", "rawPath", "rawQueryString", "requestContext", "routeKey", "version"],
    ),
    Case(
        id="aws-invalid-json-is-the-handlers",
        handler="aws.handler",
        env=AWS,
        body=b"{",
        headers=(JSON_TYPE,),
        status=201,
        has={"body": "{"},
    ),
    Case(
        id="aws-cron-event",
        handler="aws.handler",
        env=AWS,
        event={"a": 1},
        headers=(("X-Sless-Trigger", "cron"),),
        status=201,
        json={"a": 1},
        ways=DIRECT_ONLY,
    ),
    Case(
        id="aws-v1-event",
        handler="aws.handler",
        env=AWS_V1,
        method="POST",
        target="/items/a%20b?x=1&x=2&y=%C3%BC",
        headers=(
            ("X-Request-Id", "req-7"),
            ("X-Sless-Client-Ip", "192.0.2.7"),
            ("User-Agent", "curl/8"),
            ("X-Many", "1"),
            ("X-Many", "2"),
            ("Cookie", "a=1; b=2"),
            JSON_TYPE,
        ),
        body=b'{"n": 1}',
        status=201,
        has={
            "version": "1.0",
            "httpMethod": "POST",
            "path": "/items/a b",
            "resource": "/{proxy+}",
            "pathParameters": {"proxy": "items/a b"},
            "stageVariables": None,
            "headers.x-many": "2",
            "headers.cookie": "a=1; b=2",
            "multiValueHeaders.x-many": ["1", "2"],
            "multiValueHeaders.content-type": ["application/json"],
            "queryStringParameters": {"x": "2", "y": "ü"},
            "multiValueQueryStringParameters": {"x": ["1", "2"], "y": ["ü"]},
            "requestContext.httpMethod": "POST",
            "requestContext.path": "/items/a%20b",
            "requestContext.protocol": "HTTP/1.1",
            "requestContext.identity.sourceIp": "192.0.2.7",
            "requestContext.identity.userAgent": "curl/8",
            "requestContext.requestId": "req-7",
            "requestContext.apiId": "conformance",
            "requestContext.domainName": "fn.example",
            "body": '{"n": 1}',
            "isBase64Encoded": False,
        },
        headers_out={"X-From": "lambda", "Set-Cookie": ("c=3",)},
        proxied_has={"requestContext.identity.sourceIp": "127.0.0.1"},
    ),
    Case(
        id="aws-v1-no-body",
        handler="aws.handler",
        env=AWS_V1,
        method="GET",
        status=201,
        has={"body": None, "queryStringParameters": None, "multiValueQueryStringParameters": None, "isBase64Encoded": False},
    ),
    Case(
        id="aws-v1-cron-event",
        handler="aws.handler",
        env=AWS_V1,
        event={"a": 1},
        headers=(("X-Sless-Trigger", "cron"),),
        status=201,
        json={"a": 1},
        ways=DIRECT_ONLY,
    ),
    Case(
        id="aws-plain-result",
        handler="aws.plain",
        env=AWS,
        method="GET",
        json={"message": "hi"},
        headers_out={"Content-Type": "application/json"},
    ),
]

CASES: list[Case] = [*EVENTS, *CONTEXT, *RESULTS, *UNSERIALIZABLE, *FAILURES, *LOGS, *STREAMS, *WIRE, *AWS_CASES]
