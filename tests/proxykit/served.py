"""The real server (gunicorn, worker, front door) over fakes, for tests of the process itself.

Arguments: data folder, port, then any of `upstream=ADDRESS`, `concurrency=N`. Each start and stop of the schedulers, and each call of
`on_listening`, becomes a line in the data folder's `events`.
"""

import os
import sys
from pathlib import Path

from sless import log
from sless.asgi import Application, ApplicationParts
from sless.config import Settings
from sless.errors import ConfigError
from sless.proxy.history_sink import link_to
from sless.proxy.plane import DataPlane, PlaneParts
from sless.server import serve
from tests.proxykit.fakes import FakeBackend, FakeHistory, FakeQueue, FakeRoutes, FakeVerifier, revision_of, route_of
from tests.proxykit.server import hello_flask, no_follower


def main(data_dir: str, port: str, *options: str) -> int:
    chosen = dict(option.split("=", 1) for option in options)
    log.configure("info")
    settings = Settings(data_dir=Path(data_dir), port=int(port), graceful_timeout_sec=8, instance_wait_sec=2, max_call_body_bytes=2 * 2**30)

    def record(text: str) -> None:
        with (settings.data_dir / "events").open("a") as file:
            file.write(f"{text} {os.getpid()}\n")

    def application(settings: Settings) -> Application:
        addresses = [chosen["upstream"]] if "upstream" in chosen else []
        route = route_of(addresses=addresses, revision=revision_of(concurrency=int(chosen.get("concurrency", "50"))))
        plane = DataPlane(
            settings, PlaneParts(routes=FakeRoutes(route), history=link_to(FakeHistory()), queue=FakeQueue(), backend=FakeBackend())
        )
        return Application(settings, ApplicationParts(
            plane=plane, verifier=FakeVerifier(), flask=hello_flask, follow_logs=no_follower, follow_build=no_follower,
            find_unready=lambda: None, start=lambda: record("start"), stop=lambda: record("stop"),
        ))  # fmt: skip

    try:
        serve(settings, application, on_listening=lambda bound: record(f"listening {bound}"))
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
