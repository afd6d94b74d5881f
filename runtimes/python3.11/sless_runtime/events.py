"""Converts a request into the event, the handler's first argument."""

from .encode import InvalidJson, base64_of, decode_json
from .forms import form_pairs_of, media_type_of, pairs_of, text_or_base64

JSON_START = b'{["-0123456789tfn \t\r\n\xef'
CONTAINER_START = b"{[ \t\r\n\xef"


def event_of(request):
    """The event of a request. Raises InvalidJson when the body is declared as JSON but is not."""
    body = request.body
    if not body:
        return dict(pairs_of(request.query)) if request.query else {}
    if request.header_of("content-encoding") not in (None, "", "identity"):
        return {"body": base64_of(body), "isBase64Encoded": True}
    content_type = request.header_of("content-type") or ""
    if content_type == "application/json" or is_json(media_type_of(content_type)):
        return decode_json(body)
    is_form = media_type_of(content_type) == "application/x-www-form-urlencoded"
    if (not content_type or is_form) and body[0] in (CONTAINER_START if is_form else JSON_START):
        # `curl -d` always declares a form; a form with fields never parses as a JSON object or array
        try:
            return decode_json(body)
        except InvalidJson:
            pass
    pairs = form_pairs_of(body, content_type)
    return text_or_base64(body) if pairs is None else dict(pairs)


def is_json(media_type):
    return media_type in ("application/json", "text/json") or media_type.endswith("+json")
