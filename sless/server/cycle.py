"""One request and its answer: uvicorn's, with support for HTTP/1.0, and a JSON error if the application fails."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from sless.errors import Code, SlessError
from sless.ids import new_call_id
from sless.proxy.refuse import error_answer

_RETRY_AFTER_SEC = 5


class Cycle(RequestResponseCycle):
    _until_close = False

    async def run_asgi(self, app: Any) -> None:
        """Like uvicorn's, but closes the connection after an incomplete answer instead of logging an error of the application."""
        try:
            await app(self.scope, self.receive, self.send)
        except asyncio.CancelledError:
            self._give_up(
                SlessError(Code.SHUTTING_DOWN, "the server stopped before the request was complete", retry_after_sec=_RETRY_AFTER_SEC)
            )
            raise
        except Exception as error:
            self.logger.error("the application failed", exc_info=error)
            self._give_up(_failure())
        else:
            if not self.response_complete:
                self._give_up(_failure())
        finally:
            self.on_response = _nothing

    async def send(self, message: MutableMapping[str, Any]) -> None:  # type: ignore[override]  # uvicorn has its own message types
        if self.scope["http_version"] == "1.0" and await self._send_to_1_0(message):
            return
        await super().send(message)  # type: ignore[arg-type]  # as above

    async def _send_to_1_0(self, message: MutableMapping[str, Any]) -> bool:
        """Handles answers without a length, which end with the connection, as HTTP/1.0 has no chunks. False if the answer needs no special
        treatment."""
        if message["type"] == "http.response.start":
            headers = message.get("headers", [])
            known = any(name == b"content-length" for name, _ in headers)
            self._until_close = not known and self.scope["method"] != "HEAD" and message["status"] not in (204, 304)
            if self._until_close and not self.disconnected:
                self.response_started = True
                lines = [name + b": " + value + b"\r\n" for name, value in headers if name != b"connection"]
                self.transport.write(b"".join([STATUS_LINE[message["status"]], *lines, b"connection: close\r\n\r\n"]))
            return self._until_close
        if self._until_close:
            await self._send_until_close(message)
        return self._until_close

    async def _send_until_close(self, message: MutableMapping[str, Any]) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        self.transport.write(message.get("body", b""))
        if not message.get("more_body", False):
            self.response_complete = True
            self.message_event.set()
            self.transport.close()
            self.on_response()

    def _give_up(self, error: SlessError) -> None:
        if self.disconnected or self.response_complete:
            return
        if self.response_started:
            # Abort rather than close: if the answer ends with the connection, only a reset shows that it is incomplete.
            self.transport.abort()
            return
        headers, body = error_answer(error, new_call_id())
        lines = [name + b": " + value + b"\r\n" for name, value in headers]
        self.transport.write(b"".join([STATUS_LINE[error.status], *lines, b"connection: close\r\n\r\n", body]))
        self.response_complete = True
        self.transport.close()


def _failure() -> SlessError:
    return SlessError(Code.INTERNAL, "internal error; see the server's log")


def _nothing() -> None: ...
