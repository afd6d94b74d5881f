"""Reads the log of a container in parts, each line once."""

from dataclasses import dataclass

from sless.kube.client import Kube


@dataclass(slots=True, kw_only=True)
class LogTail:
    """Each line has the time at which the node received it. The API may round the start time of a request down to whole seconds, so it
    repeats lines, which are dropped."""

    kube: Kube
    namespace: str
    pod: str
    container: str
    _last: str = ""
    """The time of the newest line so far."""
    _equal: int = 0
    """How many lines with that time have been read."""

    def read(self, *, ended: bool = False) -> list[bytes]:
        """New lines; an incomplete last line only once the container has ended. Raises KubeError."""
        text = self.kube.pod_logs(self.namespace, self.pod, container=self.container, since_time=self._last or None, timestamps=True)
        raw = text.encode().split(b"\n")
        if not (ended and raw[-1]):
            raw.pop()
        known, fresh, before = self._equal, [], self._last
        for line in raw:
            stamp, _, said = line.partition(b" ")
            moment = stamp.decode("latin-1")
            if moment < before:
                continue
            if moment == before and known:
                known -= 1
                continue
            self._equal = self._equal + 1 if moment == self._last else 1
            self._last = moment
            fresh.append(said)
        return fresh
