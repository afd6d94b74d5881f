"""Status lines with the standard reason phrases."""

from http import HTTPStatus


def _line_of(status: int) -> bytes:
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


STATUS_LINES = {status: _line_of(status) for status in range(200, 600)}
