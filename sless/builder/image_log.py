"""Finds the reason in a builder's log why the image could not be built. Pure."""

import re
from collections.abc import Sequence

from sless.builder import push_image
from sless.builder.builder_job import PUSHER
from sless.builder.failures import LAST_LINES, find_culprit, install_message_of
from sless.builder.go import failure_of
from sless.builder.job_watch import End
from sless.builder.job_words import Ended
from sless.builder.packing import Context

_RUN_FAILED = re.compile(
    r"failed to execute command|error building stage.*(exit status|waiting for process)|building at STEP \"RUN|exit status \d+$"
)
_NOISE = re.compile(
    r"^(INFO|DEBU|WARN)\[|^\[attempt \d+\]$|^time=|^STEP \d+|^Trying to pull|^Getting image source|^Copying (blob|config)"
    r"|^Writing manifest|^Storing"
)
_MAX_FIRST_CHARS = 300


def is_users_fault(lines: Sequence[str]) -> bool:
    """Whether a command of the Dockerfile failed, so that another attempt would fail, too."""
    return any(_RUN_FAILED.search(line) for line in lines) or find_culprit(lines) is not None


def is_final(container: str, ended: Ended, lines: Sequence[str]) -> bool:
    """Whether every other attempt would fail like this one."""
    return is_users_fault(lines) or (container == PUSHER and ended.exit_code == push_image.PERMANENT)


def message_of(end: End, lines: Sequence[str], context: Context | None, entrypoint: str) -> str:
    """The message of a version whose image could not be built. `context` is None if the build began before a restart."""
    code = end.ended.exit_code if end.ended else 1
    reported = [line for line in lines if not _NOISE.match(line)] or list(lines)
    if end.ended and end.ended.out_of_memory:
        return _with_last("the builder ran out of memory (SLESS_BUILDER_MEMORY)", reported)
    if context is not None and end.container != PUSHER and is_users_fault(lines):
        if context.tool:
            return install_message_of(context.tool, context.manifest, reported, code, text=context.manifest_text)
        if context.functions:
            return failure_of(entrypoint, reported, tuple(context.functions), code)
    last = (
        next((line for line in reversed(reported) if line.strip()), "")
        or end.reason
        or (end.ended.words if end.ended else "no reason given")
    )
    failed = "pushed" if end.container == PUSHER else "built"
    return _with_last(f"the image cannot be {failed}: {last[:_MAX_FIRST_CHARS]}", reported)


def _with_last(first: str, lines: Sequence[str]) -> str:
    return "\n".join([first, *lines[-LAST_LINES:]])
