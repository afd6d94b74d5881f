"""Events from HTTP bodies and queries (contract §4)."""

import base64
import json

import pytest

from sless.domain.event import event_of, result_of
from sless.errors import Code, SlessError

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = 'multipart/form-data; boundary="b"'
PARTS = (
    b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--b\r\nContent-Disposition: form-data; name="f"; filename="x.bin"\r\n'
    b"Content-Type: image/png\r\n\r\n\xff\xfe\r\n--b\r\ncontent-disposition: form-data; name=a\r\n\r\n2\r\n--b--\r\n"
)  # fmt: skip
_DISPOSITIONS = (
    'name="filename"', 'name="a; filename=b"', 'name="q%22u\\""', 'name=""', "filename*=UTF-8''%D0%B4%D0%BE%D0%BC%3B%20name=x; NAME = g",
)  # fmt: skip
NAMES = b"".join(
    f"--b\r\nContent-Disposition: form-data; {item}\r\n\r\n{number}\r\n".encode() for number, item in enumerate(_DISPOSITIONS, start=1)
)

CASES = {
    "no body, no query": ("", "", b"", {}),
    "no body: the query": ("", "a=1&b=&a=2&c", b"", {"a": "2", "b": "", "c": ""}),
    "an empty JSON body: the query": (JSON, "a=%C3%BC+x", b"", {"a": "ü x"}),
    "a body: not the query": (JSON, "a=1", b'{"b": 2}', {"b": 2}),
    "JSON list": (JSON, "", b"[1, null]", [1, None]),
    "JSON number": (JSON, "", b"12", 12),
    "JSON null": (JSON, "", b" null ", None),
    "JSON with charset": ("Application/JSON; charset=utf-8", "", '"ü"'.encode(), "ü"),
    "JSON with BOM": (JSON, "", b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
    "JSON subtype": ("application/cloudevents+json", "", b'{"a": 1}', {"a": 1}),
    "curl -d JSON": (FORM, "", b'{"a": 1}', {"a": 1}),
    "curl -d JSON list": (FORM, "", b" [1]", [1]),
    "form": (FORM, "", b"a=1&b=%7B&a=2&c=", {"a": "2", "b": "{", "c": ""}),
    "form that resembles JSON": (FORM, "", b"{a=1", {"{a": "1"}),
    "form with a number": (FORM, "", b"12", {"12": ""}),
    "no type, JSON": ("", "", b'{"a": 1}', {"a": 1}),
    "no type, a number": ("", "", b"12", 12),
    "no type, text": ("", "", b"hello", {"body": "hello"}),
    "no type, broken JSON": ("", "", b"{x", {"body": "{x"}),
    "text": ("text/plain", "", b"12", {"body": "12"}),
    "text in UTF-8": ("text/plain", "", "ü".encode(), {"body": "ü"}),
    "bytes": ("application/octet-stream", "", b"\xff\x00", {"body": base64.b64encode(b"\xff\x00").decode(), "isBase64Encoded": True}),
    "multipart": (MULTIPART, "", PARTS, {
        "a": "2", "f": {"filename": "x.bin", "content_type": "image/png", "body": "//4=", "isBase64Encoded": True}}),
    "multipart, names in all forms": (MULTIPART, "", NAMES + b"--b--\r\n", {
        "filename": "1", "a; filename=b": "2", 'q"u"': "3", "": "4",
        "g": {"filename": "дом; name=x", "content_type": "application/octet-stream", "body": "5"}}),
    "form that starts with a question mark": (FORM, "", b"?a=1", {"?a": "1"}),
    "form that ends with a line": (FORM, "", b"a=1\n", {"a": "1\n"}),
    "multipart without boundary": ("multipart/form-data", "", b"--b", {"body": "--b"}),
}  # fmt: skip


@pytest.mark.parametrize(("content_type", "query", "body", "event"), CASES.values(), ids=CASES.keys())
def test_event(content_type: str, query: str, body: bytes, event: object) -> None:
    assert json.loads(event_of(content_type, query, body)) == event


@pytest.mark.parametrize("body", [b"{", b"{'a': 1}", b"NaN", b'{"a": Infinity}', b"\xff", b"[" * 100_000, b"1 2", b" "])
def test_invalid_json(body: bytes) -> None:
    with pytest.raises(SlessError) as caught:
        event_of(JSON, "", body)
    assert caught.value.code is Code.INVALID_JSON
    assert "not valid JSON" in caught.value.message


def test_json_text_is_passed_on_unchanged() -> None:
    assert event_of(JSON, "", b'{"a":1e400, "a":  2}') == '{"a":1e400, "a":  2}'


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("application/json", b'{"a": [1, "\xc3\xbc"]}', '{"a": [1, "ü"]}'),
        ("Application/JSON; charset=utf-8", b"[1]", "[1]"),
        ("application/problem+json", b"{}", "{}"),
        ("application/json", b"no", '"no"'),
        ("application/json", b"NaN", '"NaN"'),
        ("application/json", b"[" * 100_000, None),
        ("application/json", b"", "null"),
        ("text/plain; charset=utf-8", b"[1]", '"[1]"'),
        ("text/plain; charset=utf-8", "Grüße".encode(), '"Grüße"'),
        ("text/plain; charset=utf-8", b"", '""'),
        ("application/octet-stream", b"ab", '"YWI="'),
        ("image/png", b"\x89PNG", '"iVBORw=="'),
        ("image/svg+xml", b"<svg/>", '"<svg/>"'),
        (None, b"", "null"),
        (None, b"x", '"x"'),
    ],
)
def test_result_of_an_answer(content_type: str | None, body: bytes, expected: str | None) -> None:
    headers = [("X-A", "b")] + ([("Content-Type", content_type)] if content_type is not None else [])
    found = result_of(200, headers, body)
    assert found == expected or (expected is None and json.loads(found) == body.decode())
    assert result_of(304, headers, body) == result_of(204, headers, body) == "null"
