"""Builds the events of AWS API Gateway, for handlers written for AWS Lambda: REST APIs (payload format 1.0), HTTP APIs (2.0)."""

from time import gmtime, strftime, time

from .context import Headers, headers_of
from .encode import base64_of
from .forms import decode_percent, multi_of, pairs_of

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def event_v2_of(request, call, settings):
    """Absent cookies, queryStringParameters and body are left out; `headers` does not contain cookies."""
    headers = dict(headers_of(request, ",").items())
    event = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": request.path,
        "rawQueryString": request.query,
        "headers": headers,
        "requestContext": request_context_of(request, call, settings),
        "isBase64Encoded": False,
    }
    cookies = headers.pop("cookie", None)
    if cookies is not None:
        event["cookies"] = [cookie.strip() for cookie in cookies.split(";") if cookie.strip()]
    query = multi_of(pairs_of(request.query))
    if query:
        event["queryStringParameters"] = {name: ",".join(values) for name, values in query.items()}
    if request.body:
        event["body"], event["isBase64Encoded"] = body_of(request.body)
    return event


def event_v1_of(request, call, settings):
    """Absent query parameters and body are None; of repeated headers and parameters the last value counts."""
    headers = [(name, value) for name, value in request.headers if not name.startswith("x-sless-")]
    query = pairs_of(request.query)
    body, is_base64 = body_of(request.body) if request.body else (None, False)
    path = decode_percent(request.path)
    return {
        "version": "1.0",
        "resource": "/{proxy+}",
        "path": path,
        "httpMethod": request.method,
        "headers": Headers(headers),
        "multiValueHeaders": Headers(multi_of(headers)),
        "queryStringParameters": dict(query) or None,
        "multiValueQueryStringParameters": multi_of(query) or None,
        "pathParameters": {"proxy": path.lstrip("/")},
        "stageVariables": None,
        "requestContext": request_context_v1_of(request, call, settings),
        "body": body,
        "isBase64Encoded": is_base64,
    }


def body_of(body):
    try:
        return body.decode("utf-8"), False
    except UnicodeDecodeError:
        return base64_of(body), True


def request_context_of(request, call, settings):
    domain = request.header("host")
    now = time()
    return {
        "accountId": "anonymous",
        "apiId": settings.function_name,
        "domainName": domain,
        "domainPrefix": domain.partition(".")[0],
        "http": {
            "method": request.method,
            "path": request.path,
            "protocol": f"HTTP/1.{request.minor_version}",
            **identity_of(request),
        },
        "requestId": call.request_id,
        "routeKey": "$default",
        "stage": "$default",
        "time": log_time_of(now),
        "timeEpoch": int(now * 1000),
    }


def request_context_v1_of(request, call, settings):
    now = time()
    return {
        "accountId": "anonymous",
        "apiId": settings.function_name,
        "domainName": request.header("host"),
        "httpMethod": request.method,
        "identity": identity_of(request),
        "path": request.path,
        "protocol": f"HTTP/1.{request.minor_version}",
        "requestId": call.request_id,
        "requestTime": log_time_of(now),
        "requestTimeEpoch": int(now * 1000),
        "resourcePath": "/{proxy+}",
        "stage": "$default",
    }


def identity_of(request):
    return {
        "sourceIp": request.header("x-sless-client-ip") or request.peer,
        "userAgent": decode_percent(request.header("user-agent").replace("%", "%25")),
    }


def log_time_of(now):
    """`31/Jan/2026:09:26:53 +0000`"""
    moment = gmtime(now)
    return strftime(f"%d/{MONTHS[moment.tm_mon - 1]}/%Y:%H:%M:%S +0000", moment)


AWS_EVENTS = {"aws-http-v1": event_v1_of, "aws-http-v2": event_v2_of}
