"""A local server that speaks the chat protocol. What it answers is decided by `reply`, a function of the request."""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                model.requests.append(body)
                model.tokens.append(self.headers["Authorization"])
                status, content = model.reply(body) if self.path == "/v1/chat/completions" else (404, b"")
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                try:
                    if model.drip_sec is None:
                        self.wfile.write(content)
                        return
                    for byte in content:
                        self.wfile.write(bytes([byte]))
                        self.wfile.flush()
                        time.sleep(model.drip_sec)
                except OSError:
                    pass  # the client has had enough

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> "Model":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
