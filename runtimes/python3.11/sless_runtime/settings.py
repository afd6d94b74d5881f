"""Settings from the environment. A plain class: importing `dataclasses` would take a third of the start-up time."""

import os

RESERVED = (
    "SLESS_MODE",
    "SLESS_CODE_DIR",
    "SLESS_DEPS_DIR",
    "SLESS_SOCKET",
    "SLESS_ADDRESS",
    "SLESS_PORT",
    "SLESS_CONCURRENCY",
    "SLESS_GRACE_SEC",
    "SLESS_EVENT_FORMAT",
    "SLESS_LIFELINE_FD",
    "SLESS_EVENT",
    "SLESS_EVENT_FILE",
    "SLESS_INVOCATION_ID",
    "SLESS_REQUEST_ID",
    "SLESS_TRIGGER",
    "SLESS_RESULT_FILE",
)
MODES = ("server", "job", "check")
EVENT_FORMATS = ("sless", "aws-http-v1", "aws-http-v2")
SOCKET_PATH_LIMIT = 100


class WrongEnvironment(Exception):
    """An environment variable is wrong; the message names it, what was expected and what was found."""


class Settings:
    """The runtime's variables, validated. `lifeline_fd` and `deps_dir` are None when absent, `socket_path` is "" for TCP."""

    def __init__(self, environ):
        def text(name, default=""):
            return environ.get(name) or default

        self.mode = one_of("SLESS_MODE", text("SLESS_MODE", "server"), MODES)
        self.event_format = one_of("SLESS_EVENT_FORMAT", text("SLESS_EVENT_FORMAT", "sless"), EVENT_FORMATS)
        self.entrypoint = text("SLESS_ENTRYPOINT", "handler.handle")
        self.code_dir = text("SLESS_CODE_DIR", "/app/function")
        self.deps_dir = text("SLESS_DEPS_DIR") or None
        self.socket_path = text("SLESS_SOCKET")
        self.address = text("SLESS_ADDRESS", "0.0.0.0")
        self.port = whole_number("SLESS_PORT", text("SLESS_PORT", "8080"), 0, 65535)
        self.concurrency = whole_number("SLESS_CONCURRENCY", text("SLESS_CONCURRENCY", "50"), 1, 100_000)
        self.grace_sec = whole_number("SLESS_GRACE_SEC", text("SLESS_GRACE_SEC", "10"), 0, 1 << 20)
        self.memory_mb = whole_number("SLESS_MEMORY_MB", text("SLESS_MEMORY_MB", "128"), 0, 1 << 30)
        self.timeout_sec = whole_number("SLESS_TIMEOUT_SEC", text("SLESS_TIMEOUT_SEC", "0"), 0, 1 << 30)
        self.function_name = text("SLESS_FUNCTION_NAME", "function")
        self.namespace = text("SLESS_NAMESPACE")
        version = text("SLESS_VERSION", "1")
        self.version = int(version) if version.isdecimal() else version
        lifeline = text("SLESS_LIFELINE_FD")
        self.lifeline_fd = whole_number("SLESS_LIFELINE_FD", lifeline, 0, 1 << 20) if lifeline else None
        self.event_text = environ.get("SLESS_EVENT")
        self.event_file = text("SLESS_EVENT_FILE")
        self.invocation_id = text("SLESS_INVOCATION_ID")
        self.request_id = text("SLESS_REQUEST_ID")
        self.trigger = text("SLESS_TRIGGER", "job")
        self.result_file = text("SLESS_RESULT_FILE")
        self._check_paths()

    def _check_paths(self):
        if not os.path.isdir(self.code_dir):
            raise WrongEnvironment(f"SLESS_CODE_DIR: expected a folder, found {self.code_dir!r}")
        length = len(os.fsencode(self.socket_path))
        if length > SOCKET_PATH_LIMIT:
            raise WrongEnvironment(f"SLESS_SOCKET: expected a path of at most {SOCKET_PATH_LIMIT} bytes, found {length} bytes")


def one_of(name, value, allowed):
    if value not in allowed:
        raise WrongEnvironment(f"{name}: expected one of {', '.join(allowed)}, found {value!r}")
    return value


def whole_number(name, value, lowest, highest):
    if not (value.isascii() and value.isdigit() and lowest <= int(value) <= highest):
        raise WrongEnvironment(f"{name}: expected a whole number from {lowest} to {highest}, found {value!r}")
    return int(value)


def take_settings():
    """Read the settings and remove the runtime's own variables from the environment that handlers and their children see."""
    settings = Settings(os.environ)
    for name in RESERVED:
        os.environ.pop(name, None)
    return settings
