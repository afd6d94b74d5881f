"""The server's log: one line per event on stderr, as text on a terminal, otherwise as JSON."""

import json
import logging
import re
import sys
from datetime import UTC, datetime

REPEAT_SEC = 60.0
_KEPT = 1_000
_VARIABLE = re.compile(r"0x[0-9a-f]+|\d+")


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class RepeatFilter(logging.Filter):
    """Lets a warning or error pass once per REPEAT_SEC; the next one says how often it was suppressed. Messages that differ only in numbers
    count as the same."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[tuple[str, str], tuple[float, int]] = {}
        """When a message last passed, and how often it was suppressed since."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        message = record.getMessage()
        key = (record.name, _VARIABLE.sub("#", message))
        passed_at, repeats = self._passed.get(key, (float("-inf"), 0))
        if record.created - passed_at < REPEAT_SEC:
            self._passed[key] = passed_at, repeats + 1
            return False
        if repeats:
            record.msg, record.args = f"{message} (repeated {repeats} more times in {record.created - passed_at:.0f} s)", None
        self._passed.pop(key, None)  # keeps the oldest first
        self._passed[key] = record.created, 0
        while len(self._passed) > _KEPT:
            self._passed.pop(next(iter(self._passed)))
        return True


def configure(level: str, *, as_json: bool | None = None) -> None:
    """Configures the root logger. `as_json` None: JSON unless stderr is a terminal."""
    handler = logging.StreamHandler(sys.stderr)
    if as_json if as_json is not None else not sys.stderr.isatty():
        handler.setFormatter(_JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S"))
    handler.addFilter(RepeatFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # APScheduler warns if a tick is still running when the next one is due, which does not matter, since each tick reconciles everything.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    for noisy in ("alembic", "urllib3", "botocore", "gunicorn.access", "uvicorn.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
