"""Every form of result, by name."""

import base64
import datetime
import decimal
import uuid
from dataclasses import dataclass

PNG = bytes(range(256))


@dataclass
class Point:
    x: int
    y: list


def cycle():
    node = {}
    node["self"] = node
    return node


def deep_cycle():
    node = {"a": [{}]}
    node["a"][0]["back"] = node
    return node


def answer(status, body=None, **more):
    return {"statusCode": status, "body": body, **more}


FORMS = {
    "object": lambda: {"a": 1, "b": [True, None]},
    "array": lambda: [1, 2],
    "number": lambda: 42,
    "boolean": lambda: False,
    "text": lambda: "Grüße",
    "empty_text": lambda: "",
    "binary": lambda: PNG,
    "bytearray": lambda: bytearray(b"ab"),
    "nothing": lambda: None,
    "status": lambda: answer(201, "made", headers={"X-Made": "yes", "X-Count": 3}),
    "status_text": lambda: answer("404", "no"),
    "status_only": lambda: {"statusCode": 202},
    "status_object_body": lambda: answer(200, {"ok": True}),
    "status_binary": lambda: answer(200, PNG, headers={"content-type": "image/png"}),
    "status_base64": lambda: answer(200, base64.b64encode(PNG).decode(), headers={"Content-Type": "image/png"}, isBase64Encoded=True),
    "status_html": lambda: answer(200, "<p>hi</p>", headers={"CONTENT-TYPE": "text/html"}),
    "multi_headers": lambda: answer(200, "ok", multiValueHeaders={"X-Many": ["1", "2"]}, cookies=["a=1; Path=/", "b=2"]),
    "multi_over_single": lambda: answer(200, "ok", headers={"x-many": "0", "X-One": "1"}, multiValueHeaders={"X-Many": ["1", "2"]}),
    "latin_header": lambda: answer(200, "日本", headers={"X-Wide": "Grüße"}),
    "base64_text_flag": lambda: answer(200, "aGk=", isBase64Encoded="false"),
    "base64_nothing": lambda: answer(200, None, isBase64Encoded=True),
    "base64_object": lambda: answer(200, {"a": 1}, isBase64Encoded=True),
    "stream": lambda: iter(["one", "two"]),
    "bodiless_stream": lambda: answer(204, iter(["one", "two"])),
    "list_header": lambda: answer(200, "ok", headers={"X-Many": ["1", "2"]}),
    "status_500": lambda: answer(500, "own failure"),
    "status_304": lambda: answer(304, "ignored"),
    "hop_headers": lambda: answer(
        200,
        "ok",
        headers={
            "X-Sless-Error": "forged",
            "x-sless-fault": "forged",
            "Keep-Alive": "timeout=1",
            "Transfer-Encoding": "gzip",
            "Content-Length": "999",
            "Connection": "close, X-named",
            "X-Kept": "1",
        },
        multiValueHeaders={"x-Named": ["1"]},
    ),
    "redirect": lambda: {"statusCode": 302, "headers": {"Location": "/elsewhere?a=b"}},
    "status_too_high": lambda: answer(600),
    "status_too_low": lambda: answer(199),
    "status_word": lambda: answer("teapot"),
    "status_true": lambda: answer(True),
    "header_name": lambda: answer(200, "x", headers={"bad name": "x"}),
    "header_newline": lambda: answer(200, "x", headers={"X-Split": "a\r\nX-Forged: 1"}),
    "header_wide": lambda: answer(200, "x", headers={"X-Wide": "日本"}),
    "headers_not_object": lambda: answer(200, "x", headers=[1]),
    "bad_base64": lambda: answer(200, "!!!", isBase64Encoded=True),
    "dates": lambda: {"when": datetime.datetime(2026, 1, 31, 9, 26, 53, 589000, datetime.UTC), "day": datetime.date(2026, 1, 31)},
    "rich": lambda: {
        "id": uuid.UUID("12345678-1234-5678-1234-567812345678"),
        "price": decimal.Decimal("1.50"),
        "count": decimal.Decimal("3"),
        "raw": b"\xff\x00",
        "point": Point(1, [2]),
    },
    "separators": lambda: {"a": [1, 2], "b": "ü"},
    "pair": lambda: ("short", 418),
    "triple": lambda: ({"a": 1}, 201, {"X-T": "1"}),
    "long_tuple": lambda: (1, 2, 3, 4),
    "pair_bad_status": lambda: ("short", "nope"),
    "nan": lambda: {"items": [1, {"ratio": float("nan")}]},
    "infinity": lambda: [float("inf")],
    "set": lambda: {"tags": {1, 2}},
    "cycle": cycle,
    "deep_cycle": deep_cycle,
    "nan_body": lambda: answer(200, {"x": float("nan")}),
    "strange": lambda: {"value": 1j},
}


def form(event):
    return FORMS[event["form"]]()
