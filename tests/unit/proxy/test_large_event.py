import asyncio
import json
import threading

import pytest

from sless.domain.event import event_of
from sless.errors import Code, SlessError
from sless.proxy.large_event import LARGE_BYTES, EventReader, event_in_child
from tests.unit.domain.test_event import CASES


@pytest.mark.parametrize("case", ["JSON list", "JSON with BOM", "form", "text in UTF-8", "curl -d JSON"])
def test_a_child_reads_a_body_like_the_parent(case: str) -> None:
    content_type, query, body, _ = CASES[case]
    assert event_in_child(content_type, query, body) == event_of(content_type, query, body)


async def test_large_bodies_are_not_parsed_on_the_event_loop() -> None:
    reader = EventReader()
    body = json.dumps(["x" * 100] * (LARGE_BYTES // 100)).encode()
    reading = asyncio.create_task(reader.event_of("ns", "application/json", "", body))
    await asyncio.sleep(0)
    assert [thread.name for thread in threading.enumerate() if "large-event" in thread.name]
    assert await reading == body.decode()
    with pytest.raises(SlessError) as caught:
        await reader.event_of("ns", "application/json", "", body[:-1])
    assert caught.value.code is Code.INVALID_JSON and "not valid JSON" in caught.value.message
    reader.close()
