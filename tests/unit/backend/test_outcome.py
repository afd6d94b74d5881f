import base64
import json
import os

import pytest

from sless.backend.outcome import SMALL_BYTES, NoOutcome, ResultTooLarge, read_outcome

GOOD = {"ok": True, "error": None, "error_type": None, "status": 200, "headers": [["a", "b"]], "body": "x"}


@pytest.fixture
def written(tmp_path):
    def write(**fields):
        path = tmp_path / "result.json"
        path.write_text(json.dumps({**GOOD, **fields}))
        return path

    return write


def test_a_success(written):
    outcome = read_outcome(written(), 100)
    assert (outcome.ok, outcome.result, outcome.status, outcome.headers, outcome.body) == (True, '"x"', 200, (("a", "b"),), b"x")


def test_a_failure_has_no_result(written):
    outcome = read_outcome(written(ok=False, error="bad", error_type="ValueError", status=500, body="{}"), 100)
    assert (outcome.ok, outcome.result, outcome.error, outcome.error_type) == (False, None, "bad", "ValueError")


def test_bytes(written):
    assert read_outcome(written(body=None, body_base64=base64.b64encode(b"\x00\xff").decode()), 100).body == b"\x00\xff"


@pytest.mark.parametrize("size", [1000, SMALL_BYTES + 1000], ids=["here", "in a child"])
def test_sizes(written, size):
    text = "ä" + "x" * (size - 2)  # `size` bytes
    path = written(body=text)
    assert read_outcome(path, size).body == text.encode()
    with pytest.raises(ResultTooLarge, match=f"result is {size} bytes, over the limit of {size - 1}"):
        read_outcome(path, size - 1)
    assert [entry.name for entry in path.parent.iterdir()] == ["result.json"]


@pytest.mark.parametrize(("body", "error"), [("no", "no"), ("", "status 503"), ("x" * 2000, "x" * 1000)])
def test_a_status_the_function_returns_may_be_a_failure(written, body, error):
    """As with an instance's answer of that status."""
    outcome = read_outcome(written(status=503, body=body), 5000)
    assert (outcome.ok, outcome.result, outcome.error, outcome.error_type) == (False, None, error, None)
    assert read_outcome(written(status=499, body=body), 5000).ok


NO_OUTCOMES = ["", "{", "[]", "{}", '{"ok": true}', "null", '"x"', '{"ok":1,"status":"x"}', "[" * 500_000, "[" * 2_000_000]


@pytest.mark.parametrize("text", NO_OUTCOMES, ids=lambda text: text[:20])
def test_invalid_outcomes(tmp_path, text):
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(NoOutcome, match="unreadable"):
        read_outcome(tmp_path / "result.json", 100)


def test_a_missing_outcome(tmp_path):
    with pytest.raises(NoOutcome, match="no result file"):
        read_outcome(tmp_path / "result.json", 100)


FORGED = {
    "status too large to store": {"status": 10**30},
    "infinite status": {"status": float("inf")},
    "informational status": {"status": 101},
    "status as text": {"status": "200"},
    "header value with a line break": {"headers": [["a", "b\r\nX-Sless-Error: timeout"]]},
    "header name with a line break": {"headers": [["a: b\r\nc", "d"]]},
    "header value outside Latin-1": {"headers": [["a", "✓"]]},
    "header with three parts": {"headers": [["a", "b", "c"]]},
    "invalid headers": {"headers": 5},
}


@pytest.mark.parametrize("fields", FORGED.values(), ids=FORGED)
def test_forged_fields_make_an_outcome_invalid(written, fields):
    """If stored, such a status would stop everyone's runs from finishing."""
    with pytest.raises(NoOutcome, match="unreadable"):
        read_outcome(written(**fields), 100)


def test_only_regular_files_are_read(tmp_path, written):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(written())
    for name in ("pipe", "link"):
        with pytest.raises(NoOutcome, match="expected a regular file"):
            read_outcome(tmp_path / name, 100)
