"""Forms, log lines and JSON of the Python runtime: the pure parts."""

import json
from typing import Any

import pytest
from sless_runtime.encode import InvalidJson, NotSerializable, decode_json, encode_json
from sless_runtime.failures import percent_encoded
from sless_runtime.forms import decode_percent, multipart_pairs_of, pairs_of, parameters_of
from sless_runtime.loglines import HELD_LIMIT, LINE_LIMIT_BYTES, LineBuffer, cleaned


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ("plain", "plain"),
        ("%41%20b", "A b"),
        ("%C3%BC", "ü"),
        ("Ã¼", "ü"),
        ("100%", "100%"),
        ("%4", "%4"),
        ("%zz%41", "%zzA"),
        ("%+1%_1", "%+1%_1"),
        ("%FF", "\ufffd"),
    ],
)
def test_decode_percent(text: str, decoded: str) -> None:
    assert decode_percent(text) == decoded


@pytest.mark.parametrize(
    ("query", "pairs"),
    [
        ("", []),
        ("&&", []),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("=b", [("", "b")]),
        ("a=b=c", [("a", "b=c")]),
        ("a=1&b=2&a=3", [("a", "1"), ("b", "2"), ("a", "3")]),
        ("a%3D=%26", [("a=", "&")]),
        ("a=1;b=2", [("a", "1;b=2")]),
    ],
)
def test_pairs(query: str, pairs: list[tuple[str, str]]) -> None:
    assert pairs_of(query) == pairs


@pytest.mark.parametrize(
    ("value", "parameters"),
    [
        ("form-data", {}),
        ('form-data; name="a b"; filename=c.txt', {"name": "a b", "filename": "c.txt"}),
        ('form-data; name="a;b=\\"c\\""; x=y', {"name": 'a;b="c"', "x": "y"}),
        ('form-data; name="f"; filename="C:\\dir\\a.txt"', {"name": "f", "filename": "C:\\dir\\a.txt"}),
        ("form-data; name=f; filename*=UTF-8''%C3%BC.txt", {"name": "f", "filename": "ü.txt"}),
        ('form-data; name="never closed', {"name": "never closed"}),
    ],
)
def test_parameters(value: str, parameters: dict[str, str]) -> None:
    assert parameters_of(value) == parameters


@pytest.mark.parametrize("body", [b"", b"no boundary at all", b"--other\r\n\r\nx\r\n--other--"])
def test_a_body_that_is_not_multipart_despite_its_type(body: bytes) -> None:
    assert multipart_pairs_of(body, "XX") is None


def test_multipart_without_an_end_keeps_complete_parts() -> None:
    assert multipart_pairs_of(b'--XX\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--XX\r\nbroken', "XX") == [("a", "1")]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[38;5;196mx\x1b[m", "x"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title\x07after", "after"),
        ("a\x1b(Bb\x1b=c", "abc"),
        ("\x1b[2K\x1b[1Gdone", "done"),
        ("end\x1b", "end"),
        ("\x9b1mx", "x"),
        (b"caf\xc3\xa9\r", "café"),
        (b"\xff", "\ufffd"),
        ("\ud800", "?"),
    ],
)
def test_cleaned(line: Any, text: str) -> None:
    assert cleaned(line) == text


def test_long_line_is_cut_between_characters() -> None:
    text = cleaned("ü" * LINE_LIMIT_BYTES)
    assert text == "ü" * (LINE_LIMIT_BYTES // 2) + " …[cut]"
    assert cleaned("a" + "ü" * LINE_LIMIT_BYTES) == "a" + "ü" * (LINE_LIMIT_BYTES // 2 - 1) + " …[cut]"


def test_line_of_exactly_the_limit_is_whole() -> None:
    assert cleaned("x" * LINE_LIMIT_BYTES) == "x" * LINE_LIMIT_BYTES


def test_escapes_do_not_count_for_the_length() -> None:
    assert cleaned("\x1b[1mx\x1b[0m" * 3000) == "x" * 3000


def test_line_buffer() -> None:
    buffer = LineBuffer("\n")
    assert buffer.feed("a") == []
    assert buffer.feed("b\nc\n\nd") == ["ab", "c", ""]
    assert buffer.take_rest() == "d"
    assert buffer.take_rest() == ""


def test_line_buffer_does_not_keep_an_endless_line() -> None:
    buffer = LineBuffer(b"\n")
    for _ in range(100):
        assert buffer.feed(b"x" * 10_000) == []
    assert len(buffer.held) == HELD_LIMIT
    assert len(buffer.feed(b"y\nz")[0]) == HELD_LIMIT + 1


@pytest.mark.parametrize("body", [b"{}", b" [1, 2.5e3, -0]\n", b'"\\ud83d\\ude00"', b"null", b'{"a": {"b": []}}', b"12345678901234567890"])
def test_values_with_a_json_form(body: bytes) -> None:
    assert decode_json(body) == json.loads(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  ",
        b"{",
        b"{a: 1}",
        b"[1,]",
        b"nul",
        b"NaN",
        b"[Infinity]",
        b"1 2",
        b"'a'",
        b'"\xff"',
        b'"a\nb"',
        b"[" * 100_000,
        b"9" * 5000,
    ],
)
def test_values_without_a_json_form(body: bytes) -> None:
    with pytest.raises(InvalidJson):
        decode_json(body)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [{"b": float("-inf")}]}, "a[0].b is -Infinity"),
        ({"a b": {1, 2}}, "['a b'] is a set"),
        ({"a": {(1, 2): 3}}, "a has the key (1, 2), a tuple"),
        ([object()], "[0] is a object"),
        (frozenset(), "result is a frozenset"),
        (nested(100_000), "nested too deeply"),
        ({"n": 10**5000}, "result cannot be written as JSON"),
    ],
)
def test_values_that_cannot_be_written_are_named(value: Any, message: str) -> None:
    with pytest.raises(NotSerializable, match="cannot be written as JSON") as raised:
        encode_json(value)
    assert message in str(raised.value)


def test_the_same_object_twice_is_not_a_cycle() -> None:
    shared = {"a": 1}
    assert encode_json([shared, shared]) == '[{"a": 1}, {"a": 1}]'


def test_error_message_is_cut_between_characters() -> None:
    encoded = percent_encoded("ü" * 1000)
    assert encoded == "%C3%BC" * 170
    assert percent_encoded("a b\n") == "a%20b%0A"
