"""The attributes of jobs."""

from typing import Any

from sless.domain import schemas
from sless.terraform.attributes import (
    BUILD_STATUS,
    CODE,
    DESCRIBING,
    ENTRYPOINT,
    ENVIRONMENTS,
    ID,
    NAME,
    NAMESPACE,
    SECRETS_HASH,
    TIMES,
    WAITING,
    setting,
    status,
)
from sless.terraform.fields import NUMBER, Field, Role, same_json


def _without_function(default: Any) -> Any:
    return lambda planned: None if planned.get("function_ref") is not None else default


def _override(name: str, text: str) -> Field:
    """A job with a function defaults to the function's value."""
    default = schemas.JOB[name]["default"]
    return Field(
        name=name,
        text=text,
        type=NUMBER,
        role=Role.DEFAULTED,
        default=_without_function(default),
        zero=True,
    )


JOB = (
    NAME,
    setting(schemas.JOB, "run_id", "0: do not run; a higher number runs the job again; a lower one is refused.", type=NUMBER, zero=False),
    Field(name="function_ref", text="Function or service whose code runs, instead of its own.", role=Role.DEFAULTED),
    Field(name="function", text="Former name of `function_ref`.", role=Role.DEFAULTED, sent=False, api="function_ref", deprecated=True),
    Field(name="runtime", text="Language and version of its own code. Another language replaces the resource."),
    ENTRYPOINT,
    setting(schemas.JOB, "event_json", "The event: JSON text.", same=same_json),
    _override("memory_mb", "Memory of the run in MB."),
    _override("timeout_sec", "Time limit of a run in seconds."),
    *ENVIRONMENTS,
    *DESCRIBING,
    *CODE,
    *WAITING,
    ID,
    NAMESPACE,
    SECRETS_HASH,
    *BUILD_STATUS,
    status(name="job_message", text="The handler's result as JSON text, or the error with the last log lines.", api="message"),
    status(name="result", text="The handler's result as JSON text."),
    status(name="run_name", text="Id of the newest run."),
    status(name="exit_code", text="Exit code of the newest run.", type=NUMBER),
    status(name="start_time", text="When the newest run started (RFC 3339)."),
    status(name="completion_time", text="When the newest run ended (RFC 3339)."),
    *TIMES,
)
