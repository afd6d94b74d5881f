"""The server of a demo ends with the demo, also when that is killed: the end of an inherited pipe is the sign."""

import os
import signal
import threading


def watch_lifeline(descriptor: int) -> None:
    """Sends this process SIGTERM once nobody holds the pipe's other end any more."""
    owner = os.getpid()

    def watch() -> None:
        while os.read(descriptor, 1):
            pass
        os.kill(owner, signal.SIGTERM)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
