"""Shows a handler's event and context."""

import base64
import os


def echo(event):
    return {"event": event}


def only_event(event):
    return event["n"]


async def echo_async(event, context):
    return {"event": event, "request_id": context.request_id}


def show(event, context):
    remaining_ms = context.remaining_ms()
    return {
        "event": event,
        "http": shown_http(context.http),
        "context": {
            "request_id": context.request_id,
            "request_id_is_set": isinstance(context.request_id, str) and context.request_id != "",
            "aws_request_id": context.aws_request_id,
            "message": context.message,
            "function_name": context.function_name,
            "namespace": context.namespace,
            "version": context.version,
            "function_version": context.function_version,
            "invoked_function_arn": context.invoked_function_arn,
            "log_group_name": context.log_group_name,
            "log_stream_is_the_process": context.log_stream_name == f"{context.version}/{os.getpid()}",
            "memory_limit_in_mb": context.memory_limit_in_mb,
            "trigger": context.trigger,
            "memory_mb": context.memory_mb,
            "timeout_sec": context.timeout_sec,
            "remaining_is_plausible": 20_000 < remaining_ms <= 25_000,
            "aws_remaining_is_plausible": 20_000 < context.get_remaining_time_in_millis() <= 25_000,
            "unlimited": remaining_ms == 2**53 - 1,
        },
    }


def shown_http(http):
    if http is None:
        return None
    return {
        "method": http.method,
        "path": http.path,
        "raw_path": http.raw_path,
        "full_path": http.full_path,
        "raw_query": http.raw_query,
        "query": http.query,
        "multi_query": http.multi_query,
        "multi_form": http.multi_form,
        "headers": http.headers,
        "header_any_case": http.headers.get("x-cUSTOM"),
        "sless_headers": [name for name in http.headers if name.lower().startswith("x-sless")],
        "body_base64": base64.b64encode(http.body).decode(),
        "client_ip": http.client_ip,
    }


def environment(event):
    return {
        "sless": sorted(name for name in os.environ if name.startswith("SLESS_")),
        "greeting": os.environ.get("GREETING"),
        "in_code_dir": os.path.samefile(os.getcwd(), os.path.dirname(__file__)),
    }
