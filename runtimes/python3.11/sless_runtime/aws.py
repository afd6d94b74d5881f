"""Builds the event of an AWS HTTP API (payload format 2.0), for handlers written for AWS Lambda."""

from time import gmtime, strftime, time

from .context import headers_of
from .encode import base64_of
from .forms import decode_percent, multi_of, pairs_of

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def aws_event_of(request, call, settings):
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


def body_of(body):
    try:
        return body.decode("utf-8"), False
    except UnicodeDecodeError:
        return base64_of(body), True


def request_context_of(request, call, settings):
    domain = request.header("host")
    now = time()
    moment = gmtime(now)
    return {
        "accountId": "anonymous",
        "apiId": settings.function_name,
        "domainName": domain,
        "domainPrefix": domain.partition(".")[0],
        "http": {
            "method": request.method,
            "path": request.path,
            "protocol": f"HTTP/1.{request.minor_version}",
            "sourceIp": request.header("x-sless-client-ip") or request.peer,
            "userAgent": decode_percent(request.header("user-agent").replace("%", "%25")),
        },
        "requestId": call.request_id,
        "routeKey": "$default",
        "stage": "$default",
        "time": strftime(f"%d/{MONTHS[moment.tm_mon - 1]}/%Y:%H:%M:%S +0000", moment),
        "timeEpoch": int(now * 1000),
    }
