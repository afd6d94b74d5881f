"""The connection breaks before the broker confirms a dead letter: no message is lost, and the duplicates share an ID."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from sless.domain.amqp import parse_broker_url
from sless.domain.messages import MessageCall, MessageOutcome
from tests.integration.event_desk import failed, open_desk, until
from tests.services.rabbitmq import RabbitServer

pytestmark = pytest.mark.xdist_group("events")


class Wire:
    """A proxy to the broker that disconnects once: after forwarding a dead letter, before passing on the broker's confirm."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()
        self.cut = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._port)
        back = asyncio.create_task(self._back(up_reader, writer))
        try:
            await self._forth(reader, up_writer, up_reader, back)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            back.cancel()
            await asyncio.gather(back, return_exceptions=True)
            for side in (writer, up_writer):
                side.close()
                with contextlib.suppress(OSError):
                    await side.wait_closed()

    async def _forth(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, broker: asyncio.StreamReader, back: "asyncio.Task[None]"
    ) -> None:  # fmt: skip
        while data := await reader.read(65536):
            is_letter = b"x-sless-reason" in data and not self.cut
            if is_letter:
                self.cut = True
                back.cancel()  # drop everything that the broker sends from now on
                await asyncio.gather(back, return_exceptions=True)
            writer.write(data)
            await writer.drain()
            if is_letter:
                await broker.read(1)  # the confirm: the dead letter is stored
                return

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()


@contextlib.asynccontextmanager
async def wire_to(server: RabbitServer) -> AsyncIterator[tuple[Wire, int]]:
    wire = Wire(server.port)
    listening = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    try:
        yield wire, listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        await wire.close()
        await listening.wait_closed()


async def test_a_dead_letter_with_a_lost_confirm_is_duplicated_with_the_same_id(rabbit_server: RabbitServer) -> None:
    async def fail(call: MessageCall) -> MessageOutcome:
        return failed()

    async with wire_to(rabbit_server) as (wire, port), open_desk(rabbit_server, fail) as desk:
        url = parse_broker_url(rabbit_server.url().replace(f":{rabbit_server.port}/", f":{port}/"))
        listener = await desk.listening(max_attempts=2, url=url)
        await desk.publish(b"x", message_id="m-1")
        await until(lambda: wire.cut, lambda: listener.message)
        await until(lambda: desk.holds(2, f"{desk.queue}.dead"), lambda: listener.message)
        await listener.stop(5)
        assert await desk.counts() == (0, 0)
        letters = [letter.header.properties for letter in await desk.take_all(f"{desk.queue}.dead")]
        assert len({letter.headers["x-sless-id"] for letter in letters}) == 1
        assert [letter.message_id for letter in letters] == ["m-1", "m-1"]
