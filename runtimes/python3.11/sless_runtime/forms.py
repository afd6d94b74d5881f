"""Parses query strings, form bodies and multipart bodies; keeps the order in which fields were sent."""

from binascii import Error, unhexlify

from .encode import base64_of


def decode_percent(text, charset="utf-8"):
    """Decode `%41` and raw bytes (given as Latin-1 characters) to text; invalid bytes are replaced, a stray `%` kept."""
    if "%" not in text:
        return text if text.isascii() else text.encode("latin-1").decode(charset, "replace")
    first, *pieces = text.encode("latin-1").split(b"%")
    decoded = [first]
    for piece in pieces:
        try:
            decoded.append(unhexlify(piece[:2] or b"%") + piece[2:])
        except Error:
            decoded.append(b"%" + piece)
    return b"".join(decoded).decode(charset, "replace")


def charset_of(content_type):
    """The declared charset, or UTF-8 when it is absent or unknown."""
    declared = parameters_of(content_type).get("charset", "") if "charset" in content_type.lower() else ""
    try:
        return "utf-8" if b" ".decode(declared or "utf-8") != " " else declared or "utf-8"
    except (LookupError, UnicodeError):
        return "utf-8"


def pairs_of(text, charset="utf-8"):
    """(name, value) pairs of `a=1&b=2`, given as Latin-1 characters."""
    pairs = []
    for piece in text.split("&"):
        if piece:
            name, _, value = piece.replace("+", " ").partition("=")
            pairs.append((decode_percent(name, charset), decode_percent(value, charset)))
    return pairs


def multi_of(pairs):
    """Name → list of values."""
    values = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return values


def media_type_of(content_type):
    return content_type.partition(";")[0].strip().lower()


def text_or_base64(body):
    """The event of a body that is neither JSON nor a form."""
    try:
        return {"body": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"body": base64_of(body), "isBase64Encoded": True}


def form_pairs_of(body, content_type):
    """Fields of a form body, or None when it is not a form. A file is a dict with filename, content_type and body."""
    media_type = media_type_of(content_type)
    if media_type == "application/x-www-form-urlencoded":
        return pairs_of(body.decode("latin-1"), charset_of(content_type))
    if media_type == "multipart/form-data":
        boundary = parameters_of(content_type).get("boundary")
        return multipart_pairs_of(body, boundary) if boundary else None
    return None


def multipart_pairs_of(body, boundary):
    parts = (b"\r\n" + body).split(b"\r\n--" + boundary.encode("latin-1"))
    if len(parts) < 2:
        return None
    pairs = []
    for part in parts[1:]:
        if part.startswith(b"--"):
            break
        head, found, content = part.partition(b"\r\n\r\n")
        field = field_of(head.decode("utf-8", "replace"), content) if found else None
        if field is not None:
            pairs.append(field)
    return pairs


def field_of(head, content):
    headers = {}
    for line in head.split("\r\n"):
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    parameters = parameters_of(headers.get("content-disposition", ""))
    name = parameters.get("name")
    if name is None:
        return None
    filename = parameters.get("filename")
    if filename is None:
        return name, content.decode(charset_of(headers.get("content-type", "")), "replace")
    return name, {"filename": filename, "content_type": headers.get("content-type", "application/octet-stream"), **text_or_base64(content)}


def parameters_of(value):
    """Parameters of `form-data; name="a"; filename=b` as name → value."""
    parameters = {}
    rest = value.partition(";")[2]
    while rest:
        name, _, rest = rest.partition("=")
        rest = rest.lstrip()
        if rest.startswith('"'):
            found, rest = quoted(rest)
            rest = rest.partition(";")[2]
        else:
            found, _, rest = rest.partition(";")
            found = found.strip()
        name = name.strip().lower()
        if name.endswith("*"):
            name, found = name[:-1], decode_percent(found.rpartition("'")[2].encode("utf-8", "replace").decode("latin-1"))
        parameters[name] = found
    return parameters


def quoted(text):
    """(content, rest) of text that starts with a quoted string."""
    content = []
    position = 1
    while position < len(text) and text[position] != '"':
        if text[position] == "\\" and text[position + 1 : position + 2] in ('"', "\\"):
            position += 1
        content.append(text[position])
        position += 1
    return "".join(content).replace("%22", '"'), text[position + 1 :]
