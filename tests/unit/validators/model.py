"""A local server that speaks the chat protocol. `reply`, a function of the request, returns its answers."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from werkzeug import Request, Response

from tests.services.fake_http import serving

Reply = Callable[[dict[str, Any]], tuple[int, bytes]]


def completion(text: str | None, finish: str = "stop", usage: Any = None) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def verdict(*, safe: bool, reason: str = "", findings: Any = ()) -> bytes:
    usage = {"prompt_tokens": 100, "completion_tokens": 7}
    return completion(json.dumps({"safe": safe, "reason": reason, "findings": list(findings)}), usage=usage)


class Model:
    """`requests` are the bodies it got. `drip_sec` not None: it sends one byte of the response at a time with this pause."""

    def __init__(self) -> None:
        self.reply: Reply = lambda body: (200, verdict(safe=True))
        self.drip_sec: float | None = None
        self.requests: list[dict[str, Any]] = []
        self.tokens: list[str | None] = []
        self._serving = serving(self._answer)

    def __enter__(self) -> "Model":
        self.url = self._serving.__enter__() + "/v1"
        return self

    def __exit__(self, *_: object) -> None:
        self._serving.__exit__(None, None, None)

    def _answer(self, request: Request) -> Response:
        body = request.get_json()
        self.requests.append(body)
        self.tokens.append(request.headers.get("Authorization"))
        status, content = self.reply(body) if request.path == "/v1/chat/completions" else (404, b"")
        if self.drip_sec is None:
            return Response(content, status)
        return Response(self._drip(content, self.drip_sec), status, {"Content-Length": str(len(content))})

    def _drip(self, content: bytes, pause_sec: float) -> Iterator[bytes]:
        for byte in content:
            yield bytes([byte])
            time.sleep(pause_sec)
