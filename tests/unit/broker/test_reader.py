"""Reading from a broker: frames the library cannot decode, and connections at their memory limit."""

import asyncio
import datetime
import struct
from typing import Any

import pytest
from aiormq.connection import FrameReceiver
from pamqp import commands, encode, frame, header, heartbeat

from sless.broker.properties import table_of
from sless.broker.readable import HEADER_FRAME, METHOD_FRAME, readable
from sless.broker.reader import BoundedReader, BrokerLimits, Budget


def header_payload(flags: int, properties: bytes, size: int = 3) -> bytes:
    return struct.pack(">HHQH", 60, 0, size, flags) + properties


def unmarshal(frame_type: int, payload: bytes) -> Any:
    whole = bytes([frame_type]) + struct.pack(">HI", 1, len(payload)) + payload + b"\xce"
    return frame.unmarshal(whole)[2]


def short(raw: bytes) -> bytes:
    return bytes([len(raw)]) + raw


def deliver_payload(exchange: bytes, routing_key: bytes) -> bytes:
    return struct.pack(">HH", 60, 60) + short(b"tag") + struct.pack(">QB", 7, 0) + short(exchange) + short(routing_key)


def table(raw: bytes) -> bytes:
    return struct.pack(">I", len(raw)) + raw


def test_readable_frames_are_unchanged() -> None:
    whole = commands.Basic.Properties(
        message_id="é", headers={"n": {"a": [1, "x"]}}, timestamp=datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), priority=3
    )
    payload = frame.marshal(header.ContentHeader(0, 10, whole), 1)[7:-1]
    assert readable(HEADER_FRAME, payload) is payload
    assert readable(METHOD_FRAME, deliver_payload(b"", "é".encode())) == deliver_payload(b"", "é".encode())
    assert readable(METHOD_FRAME, b"\x00\x0a\xff") == b"\x00\x0a\xff"


def test_names_in_another_encoding_are_repaired() -> None:
    delivered = unmarshal(METHOD_FRAME, readable(METHOD_FRAME, deliver_payload(b"caf\xe9", b"a.\xff\xfe.b")))
    assert (delivered.exchange, delivered.routing_key, delivered.delivery_tag) == ("caf?", "a.??.b", 7)


def test_a_message_id_in_another_encoding_is_repaired() -> None:
    found = unmarshal(HEADER_FRAME, readable(HEADER_FRAME, header_payload(0x8080, short(b"text/\xe9") + short(b"id-\xff"))))
    assert (found.properties.content_type, found.properties.message_id, found.body_size) == ("text/?", "id-?", 3)


def test_header_names_are_repaired_in_nested_tables() -> None:
    inner = table(short(b"deep\xe9") + b"I\0\0\0\x05")
    raw = table(short(b"top\xff") + b"F" + inner + short(b"fine") + b"S\0\0\0\x02ok")
    found = unmarshal(HEADER_FRAME, readable(HEADER_FRAME, header_payload(0x2000, raw)))
    assert found.properties.headers == {"top?": {"deep?": 5}, "fine": "ok"}


def deep(levels: int) -> bytes:
    raw = table(b"")
    for _ in range(levels):
        raw = table(short(b"n") + b"F" + raw)
    return raw


@pytest.mark.parametrize(
    "properties",
    [
        (0x2000, table(short(b"when") + b"T" + b"\x7f" + b"\xff" * 7 + short(b"more") + b"S" + table(b"x" * 30))),
        (0x2000, table(short(b"what") + b"Z" + b"x" * 40)),
        (0x2000, deep(2000)),
        (0x0040, b"\x7f" + b"\xff" * 7),
    ],
    ids=["time out of range", "an unknown type", "2,000 tables deep", "timestamp out of range"],
)
def test_unreadable_properties_are_left_out(properties: tuple[int, bytes]) -> None:
    payload = header_payload(*properties)
    found = readable(HEADER_FRAME, payload)
    assert len(found) == len(payload)
    expected = {"x-sless-headers-dropped": True} if len(payload) > 60 else None
    assert unmarshal(HEADER_FRAME, found).properties.headers == expected
    assert unmarshal(HEADER_FRAME, found).body_size == 3


def test_a_time_out_of_range_does_not_lose_the_other_properties() -> None:
    whole = commands.Basic.Properties(
        content_type="text/plain", content_encoding="x", headers={"n": {"a": [1, "x"]}}, delivery_mode=2, priority=3, correlation_id="c",
        reply_to="r", expiration="9", message_id="é", timestamp=datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), message_type="t",
        user_id="u", app_id="a",
    )  # fmt: skip
    payload = frame.marshal(header.ContentHeader(0, 10, whole), 1)[7:-1]
    moment = struct.pack(">Q", int(whole.timestamp.timestamp()))
    repaired = readable(HEADER_FRAME, payload.replace(moment, struct.pack(">Q", 2**62)))
    whole.timestamp = None
    found = unmarshal(HEADER_FRAME, repaired)
    assert (found.properties, found.body_size, len(repaired)) == (whole, 10, len(payload))


async def test_a_paused_connection_still_yields_heartbeats() -> None:
    budget = Budget(BrokerLimits(held_bytes=10))
    reader = BoundedReader(budget, asyncio.get_running_loop(), beat_sec=0.01)
    frames = FrameReceiver(reader)
    reader.feed_data(frame.marshal(commands.Basic.CancelOk("c"), 1))
    budget.take(11)
    for _ in range(2):
        assert isinstance((await frames.get_frame())[2], heartbeat.Heartbeat)
    budget.give(11)
    assert isinstance((await frames.get_frame())[2], commands.Basic.CancelOk)
    reader.feed_data(frame.marshal(heartbeat.Heartbeat(), 0) + frame.marshal(commands.Basic.CancelOk("d"), 1))
    assert isinstance((await frames.get_frame())[2], heartbeat.Heartbeat)
    assert isinstance((await frames.get_frame())[2], commands.Basic.CancelOk)


async def test_a_message_over_the_limit_fails_before_its_body_arrives() -> None:
    reader = BoundedReader(Budget(BrokerLimits(message_bytes=100)), asyncio.get_running_loop())
    reader.feed_data(frame.marshal(header.ContentHeader(0, 101, commands.Basic.Properties()), 1))
    with pytest.raises(Exception, match="a message of 101 bytes is over the limit of 100"):
        await FrameReceiver(reader).get_frame()


def test_the_table_helper_encodes_amqp() -> None:
    assert table(short(b"a") + b"S" + table(b"b")) == table_of({"a": "b"}) == encode.field_table({"a": "b"})
