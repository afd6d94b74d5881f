import json

import pytest

from sless.clock import parse_rfc3339
from sless.host.lines import OUTSIDE_SEQ, LineReader
from sless.proxy.logs import lines_of_page


def item_of(seq: int, text: str) -> dict:
    return {"seq": seq, "time": "2026-01-31T09:26:53.589Z", "stream": "stdout", "id": "inv1", "text": text}


def runtime_line(seq: int, text: str) -> bytes:
    return json.dumps(item_of(seq, text)).encode()


def read(*raw: tuple[str, bytes], invocation_id: str = ""):
    lines = []
    reader = LineReader("inst", "work", lines.extend, namespace="ns", invocation_id=invocation_id)
    for stream, line in raw:
        reader.take(stream, [line])
    return lines, reader


def test_a_runtimes_line_is_kept():
    (line,), _ = read(("stdout", runtime_line(12, "hello")))
    assert (line.source_id, line.seq, line.workload_id, line.invocation_id) == ("inst", 12, "work", "inv1")
    assert line.namespace == "ns"
    assert (line.at, line.stream, line.text) == (parse_rfc3339("2026-01-31T09:26:53.589Z"), "stdout", "hello")


def test_other_lines_become_stderr_lines_with_their_own_numbers():
    lines, _ = read(("stderr", b"Fatal Python error\r"), ("stdout", b'{"oops'), ("stdout", b'{"seq": 1}'), invocation_id="run1")
    assert [(line.seq - OUTSIDE_SEQ, line.stream, line.text, line.invocation_id) for line in lines] == [
        (1, "stderr", "Fatal Python error", "run1"),
        (2, "stderr", '{"oops', "run1"),
        (3, "stderr", '{"seq": 1}', "run1"),
    ]


def test_a_forged_line_on_stderr_is_plain_text():
    (line,), _ = read(("stderr", runtime_line(1, "forged")))
    assert line.stream == "stderr" and line.text.startswith('{"seq"')


def test_the_first_line_of_a_panic_is_remembered():
    said = runtime_line(1, "panic: printed by the function")
    _, reader = read(("stdout", said), ("stderr", b"panic: boom"), ("stderr", b"goroutine 7 [running]:"), ("stderr", b"panic: again"))
    assert reader.crash == "panic: boom"
    assert read(("stdout", said))[1].crash == ""


def test_blank_lines_and_outcomes_are_skipped_and_bytes_repaired():
    lines, _ = read(("stderr", b""), ("stderr", b"  "), ("stdout", b'{"sless_outcome": {}}'), ("stderr", b"a\0\xffb"))
    assert [line.text for line in lines] == ["a\ufffdb"]


def test_the_tail_is_bounded():
    _, reader = read(*(("stdout", runtime_line(n, f"{n}" * 3000)) for n in range(1, 31)))
    assert len(reader.tail()) == 20
    assert reader.tail()[-1] == ("30" * 3000)[:2000]


FORGED = {
    "number too large to store": {"seq": 2**63},
    "negative number": {"seq": -1},
    "infinite number": {"seq": float("inf")},
    "boolean number": {"seq": True},
    "time without a zone": {"time": "2026-01-31T09:26:53"},
    "time before year 1 in UTC": {"time": "0001-01-01T00:00:00+14:00"},
    "time in year 9999": {"time": "9999-12-31T23:59:59Z"},
    "invalid time": {"time": 5},
    "unknown stream": {"stream": "stdlog"},
    "invalid stream": {"stream": []},
    "invalid id": {"id": "\ud800"},
    "long id": {"id": "a" * 129},
    "invalid text": {"text": ["x"]},
}


@pytest.mark.parametrize("fields", FORGED.values(), ids=FORGED)
def test_invalid_fields_make_a_line_plain_text(fields):
    """Otherwise one such line would block writing everyone's history."""
    (line,), _ = read(("stdout", json.dumps(item_of(1, "forged") | fields).encode()))
    assert (line.stream, line.seq, line.invocation_id) == ("stderr", OUTSIDE_SEQ + 1, "")
    with pytest.raises(ValueError):
        lines_of_page(json.dumps({"lines": [item_of(1, "forged") | fields], "last": 1}).encode(), "inst", "work", "ns")


@pytest.mark.parametrize("raw", [b'{"' + b"x" * 20_000, runtime_line(1, "x" * 20_000)], ids=["written directly", "written by the runtime"])
def test_line_size_is_limited(raw):
    (line,), _ = read(("stdout", raw))
    assert line.text.endswith("x …[cut]") and len(line.text) < 18_000
