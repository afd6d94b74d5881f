"""Reads the log of a container in parts, each line once."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sless.kube.client import Kube

LIMIT_BYTES = 4 * 2**20
"""Maximum size of a part."""


@dataclass(slots=True, kw_only=True)
class LogTail:
    """Each line has the time at which the node received it. The API may round the start time of a request down to whole seconds, so it
    repeats lines, which are dropped. Of a container that writes more than LIMIT_BYTES in a second, only the beginning of that second is
    read."""

    kube: Kube
    namespace: str
    pod: str
    container: str
    _last: str = ""
    """The time of the newest line so far."""
    _equal: int = 0
    """How many lines with that time have been read."""

    def read(self, *, ended: bool = False) -> list[bytes]:
        """New lines; an incomplete last line only once the container has ended, and then the newest lines without a limit. Raises
        KubeError."""
        limit = None if ended else LIMIT_BYTES
        text = self.kube.pod_logs(
            self.namespace, self.pod, container=self.container, since_time=self._last or None, timestamps=True, limit_bytes=limit
        )
        data = text.encode()
        raw = data.split(b"\n")
        if not (ended and raw[-1]):
            raw.pop()
        fresh = self._fresh(raw)
        if not fresh and limit is not None and len(data) >= limit:
            self._last, self._equal = _next_second(self._last), 0
        return fresh

    def _fresh(self, raw: list[bytes]) -> list[bytes]:
        known, fresh, before = self._equal, [], self._last
        for line in raw:
            stamp, _, text = line.partition(b" ")
            moment = stamp.decode("latin-1")
            if moment < before:
                continue
            if moment == before and known:
                known -= 1
                continue
            self._equal = self._equal + 1 if moment == self._last else 1
            self._last = moment
            fresh.append(text)
        return fresh


def _next_second(moment: str) -> str:
    """The whole second after an RFC 3339 time in UTC."""
    second = datetime.fromisoformat(moment[:19]) + timedelta(seconds=1)
    return f"{second.isoformat()}.000000000Z"
