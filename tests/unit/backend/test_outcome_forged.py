"""Result files that no runtime writes."""

import json
import os

import pytest

from sless.backend.outcome import NoOutcome, read_outcome

GOOD = {"ok": True, "error": None, "error_type": None, "status": 200, "headers": [["a", "b"]], "body": "x"}


@pytest.fixture
def written(tmp_path):
    def write(**fields):
        path = tmp_path / "result.json"
        path.write_text(json.dumps({**GOOD, **fields}))
        return path

    return write


FORGED = {
    "a status no database holds": {"status": 10**30},
    "an endless status": {"status": float("inf")},
    "a status of no answer": {"status": 101},
    "a status in words": {"status": "200"},
    "a header with a line break": {"headers": [["a", "b\r\nX-Sless-Error: timeout"]]},
    "a name with a line break": {"headers": [["a: b\r\nc", "d"]]},
    "a header that fits no head": {"headers": [["a", "✓"]]},
    "a header of three": {"headers": [["a", "b", "c"]]},
    "a header that is none": {"headers": 5},
}


@pytest.mark.parametrize("fields", FORGED.values(), ids=FORGED)
def test_what_a_program_forges_is_no_outcome(written, fields):
    """Kept as it is, such a status would keep the runs of everybody from ending."""
    with pytest.raises(NoOutcome, match="unreadable"):
        read_outcome(written(**fields), 100)


def test_only_a_regular_file_is_read(tmp_path, written):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(written())
    for name in ("pipe", "link"):
        with pytest.raises(NoOutcome, match="expected a regular file"):
            read_outcome(tmp_path / name, 100)
