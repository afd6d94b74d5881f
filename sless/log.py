"""The server's log: one line per event on stderr, as text on a terminal, otherwise as JSON."""

import json
import logging
import sys
from datetime import UTC, datetime


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure(level: str, *, as_json: bool | None = None) -> None:
    """Configures the root logger. `as_json` None: JSON unless stderr is a terminal."""
    handler = logging.StreamHandler(sys.stderr)
    if as_json if as_json is not None else not sys.stderr.isatty():
        handler.setFormatter(_JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # APScheduler warns when a tick is still running at the next one; a tick reconciles everything anyway.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    for noisy in ("alembic", "urllib3", "botocore", "gunicorn.access", "uvicorn.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
