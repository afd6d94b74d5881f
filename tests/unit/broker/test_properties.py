"""Message headers and properties survive a round trip."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pamqp import decode, header

from sless.broker.properties import properties_of, table_of
from sless.domain.messages import Message

MOST = 100_000


@pytest.mark.parametrize(
    "value",
    [
        "ü", "", 0, -1, 40_000, 2**40, -(2**63), True, None, 3.14159, -1e300, float("inf"), Decimal("1.50"),
        datetime(2026, 1, 2, tzinfo=UTC), bytearray(b"\xff\x00"), b"\xff\xfe", [], [1, [None, {"x": 2.5}], b"\xff"],
        {"a": {"b": [True]}}, {},
    ],
    ids=repr,
)  # fmt: skip
def test_headers_round_trip(value: Any) -> None:
    table = {"k": value, "ü": 1}
    assert decode.by_type(table_of(table), "table") == (len(table_of(table)), table)


@pytest.mark.parametrize(
    "value", ["x" * MOST, {"deep": ["y" * MOST]}, 2**70, Decimal(2**40), object()], ids=["long", "deep", "big", "decimal", "odd"]
)
def test_unwritable_headers_are_left_out_except_ours(value: Any) -> None:
    properties = properties_of(Message(body=b"", headers={"theirs": value, "x-sless-reason": "boom"}), MOST)
    assert properties.headers == {"x-sless-reason": "boom", "x-sless-headers-dropped": True}


def test_all_properties_survive() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    message = Message(
        body=b"b", headers={"pi": 3.14159}, message_id="m", correlation_id="c", reply_to="r", content_type="t", content_encoding="e",
        type="y", app_id="a", priority=4, timestamp=at,
    )  # fmt: skip
    frame = header.ContentHeader(body_size=1, properties=properties_of(message, MOST)).marshal()
    read = header.ContentHeader()
    read.unmarshal(frame)
    found = read.properties
    assert (found.headers, found.message_id, found.correlation_id, found.reply_to) == ({"pi": 3.14159}, "m", "c", "r")
    assert (found.content_type, found.content_encoding, found.message_type, found.app_id) == ("t", "e", "y", "a")
    assert (found.priority, found.timestamp, found.delivery_mode) == (4, at, 2)
