"""`sless notify`."""

import json

from tests.unit.cli.contract_server import NAMESPACE

PATH = f"/v1/namespaces/{NAMESPACE}/notifications"
URL = "https://example.com/hook"


def test_the_address_is_set_shown_and_cleared(run, state):
    def answer(method: str, url: str | None) -> None:
        state.replies[method, PATH] = 200, {}, json.dumps({"namespace": NAMESPACE, "notify_url": url}).encode()

    answer("PUT", URL)
    assert run("notify", URL).out == f"{URL}\n"
    answer("GET", URL)
    assert run("notify").out == f"{URL}\n"
    answer("PUT", None)
    assert "not reported" in run("notify", "--off").err
    assert [json.loads(body) for _, _, body in state.calls("PUT")] == [{"notify_url": URL}, {"notify_url": None}]
    assert run("notify", URL, "--off").code == 2
