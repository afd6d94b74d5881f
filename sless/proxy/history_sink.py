"""Writes history in the recorder's own thread: for `sless dev`, and wherever history is not stored in a database."""

import logging
import threading
from time import monotonic

from sless.domain.call_sums import outcomes_of
from sless.domain.history_batch import choose_rows, decode
from sless.domain.ports import HistorySink
from sless.proxy.batch_queue import Sealed
from sless.proxy.recorder import Acknowledgement, MakeLink, Sender

_log = logging.getLogger(__name__)
_AGAIN_SEC = 1.0


def link_to(sink: HistorySink) -> MakeLink:
    return lambda sender: SinkLink(sink, sender)


class SinkLink:
    """recorder.HistoryLink. Retries a batch that the sink refuses."""

    def __init__(self, sink: HistorySink, sender: Sender) -> None:
        self._sink = sink
        self._sender = sender
        self._woken = threading.Event()
        self._rest_until = 0.0

    def pump(self, timeout_sec: float) -> None:
        if monotonic() >= self._rest_until:
            while (sealed := self._sender.take()) is not None:
                if not self._write(sealed):
                    return
        if timeout_sec:
            self._woken.wait(min(timeout_sec, max(_AGAIN_SEC, self._rest_until - monotonic())))
            self._woken.clear()

    def wake(self) -> None:
        self._woken.set()

    def finish(self, timeout_sec: float) -> None:
        self._rest_until = 0.0
        self.pump(0)

    def _write(self, sealed: Sealed) -> bool:
        batch = decode(sealed.data)
        choose_rows([batch])
        sums = batch.all_sums()
        try:
            rows = [call.invocation() for call in batch.rows]
            self._sink.add_history(rows, [item.row(key) for key, item in sums.items()], batch.lines)
        except Exception:
            _log.exception("cannot write the history of %d calls yet; retrying", len(batch.calls))
            self._sender.take_back()
            self._rest_until = monotonic() + _AGAIN_SEC
            return False
        self._sender.written(Acknowledgement(sealed.number, outcomes_of(sums.values()), len(batch.calls) - len(batch.rows)))
        return True
