"""Each example, deployed with the command line to a real server and called as in its README."""

import asyncio
import json
import time
import urllib.error
import urllib.request

import aiormq
import pytest
from pamqp.commands import Basic

from sless import assets
from sless.cli import main
from tests.e2e.conftest import free_port, wait_until

pytestmark = [pytest.mark.xdist_group("examples"), pytest.mark.timeout(180)]

TESTED = {
    "hello-python", "hello-node", "hello-go", "simple-python", "notes-python", "sse-node", "lambda-python", "report-python", "queue-node",
}  # fmt: skip

ELSEWHERE = {"simple-node", "pg-list-python", "postgres", "event-log"}
"""Tested in tests/terraform and by `make marathon`."""


class Answer:
    def __init__(self, raw) -> None:
        self.status, self.headers, self.text = raw.status, raw.headers, raw.read().decode()

    @property
    def json(self):
        return json.loads(self.text)


def call(url: str, body: object = None, method: str | None = None, **headers: str) -> Answer:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode() if body is not None else None
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, raw, {"Content-Type": "application/json"} | given, method=method)
    try:
        with urllib.request.urlopen(request, timeout=40) as answer:
            return Answer(answer)
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error)


@pytest.fixture
def deploy(server):
    def deployed(example: str, name: str = "", *options: str) -> str:
        ended = server.sless("deploy", name or example, str(assets.example_dir(example)), *options)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout.strip()

    return deployed


def test_every_example_is_tested():
    assert {entry.name for entry in assets.examples_dir().iterdir() if entry.is_dir()} == TESTED | ELSEWHERE


@pytest.mark.parametrize("language", ["python", "node", pytest.param("go", marks=pytest.mark.slow)])
def test_the_hello_examples_greet(deploy, language, request):
    if language != "python":
        request.getfixturevalue({"node": "node_binary", "go": "go_toolchain"}[language])
    url = deploy(f"hello-{language}")
    assert call(url, {"name": "Ada"}).json == {"message": "Hello, Ada!", "runtime": language, "version": 1}
    assert call(url + "?name=Grace").json["message"] == "Hello, Grace!"
    assert call(url).json["message"] == "Hello, world!"


def test_a_folder_from_init_deploys_unchanged(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "fresh"]) == 0
    ended = server.sless("deploy", "fresh", str(tmp_path / "fresh"))
    assert ended.returncode == 0, ended.stderr
    assert call(ended.stdout.strip()).json["message"] == "Hello, world!"


def test_simple_python_converts_words(deploy):
    url = deploy("simple-python")
    octopus = {"singular": "octopus", "plural": "octopi", "class": "Octopus", "table": "octopi"}
    assert call(url + "?word=octopus").json == octopus
    assert call(url, {"word": "octopi"}).json == octopus
    wrong = call(url, {"word": 3})
    assert (wrong.status, wrong.json["error"]) == (400, "word: expected a word, found 3")


@pytest.mark.parametrize("database", ["sqlite", "postgres", "pg-variables"])
def test_notes_python_keeps_notes(deploy, database, request, tmp_path):
    options = {"sqlite": lambda: (), "postgres": lambda: _of_url(request), "pg-variables": lambda: _of_variables(request)}[database]()
    url = deploy("notes-python", f"notes-{database}", "--service", *options)
    milk = call(url + "/notes", {"title": "Milk", "text": "two litres"})
    assert (milk.status, milk.json["title"], milk.json["text"]) == (201, "Milk", "two litres")
    note_url = url + f"/notes/{milk.json['id']}"
    assert note_url.endswith(milk.headers["Location"])
    bread = call(url + "/notes", {"title": "Bread"}).json
    assert [note["title"] for note in call(url + "/notes").json] == ["Bread", "Milk"]
    assert [note["title"] for note in call(url + "/notes?word=LITRE").json] == ["Milk"]
    assert call(url + "/notes?word=%25").json == [], "the word is not a pattern"
    assert call(note_url).json == milk.json

    changed = call(note_url, {"title": "Milk", "text": "three"}, "PUT")
    assert (changed.status, call(note_url).json["text"]) == (200, "three")
    gone = call(note_url, method="DELETE")
    assert (gone.status, gone.text) == (204, "")
    assert [call(note_url, method=method).status for method in ("GET", "DELETE")] == [404, 404]
    assert call(note_url, {"title": "x"}, "PUT").status == 404
    assert [note["id"] for note in call(url + "/notes").json] == [bread["id"]]


def _of_url(request) -> tuple[str, ...]:
    return ("--env", f"DATABASE_URL={request.getfixturevalue('postgres_url')}")


def _of_variables(request) -> tuple[str, ...]:
    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(request.getfixturevalue("postgres_url"))
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}
    pairs = [f"{names[key]}={value}" for key, value in parts.items() if key in names]
    return tuple(word for pair in pairs for word in ("--env", pair))


def test_notes_python_reports_errors(deploy):
    url = deploy("notes-python", "notes-wrong", "--service")
    for body, mistake in [
        ({}, "title: expected a string that is not empty"),
        ({"title": " "}, "title: expected a string that is not empty"),
        ({"title": 1, "more": 2}, "more: no such field; title: expected a string, found int"),
        ([1], "expected a JSON object, found list"),
        ({"title": "x" * 201}, "title: expected at most 200 characters, without zero bytes"),
    ]:
        answer = call(url + "/notes", body)
        assert (answer.status, answer.json) == (400, {"error": mistake})
    assert call(url + "/notes", "{no").status == 400
    for path in ("", "/", "/other", "/notes/abc", "/notes/1/2", f"/notes/{10**20}", "/notes/99"):
        assert call(url + path).status == 404, path
    refused = call(url + "/notes", {}, "PATCH")
    assert (refused.status, refused.headers["Allow"]) == (405, "GET, POST")
    assert call(url + "/notes").json == []


def test_sse_node_streams_events(deploy, node_binary):
    url = deploy("sse-node")
    call(url + "?ticks=1")
    began = time.monotonic()
    with urllib.request.urlopen(url + "?ticks=3&every_ms=2000", timeout=30) as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        first = [stream.readline() for _ in range(4)]
        first_after_sec = time.monotonic() - began
        rest = stream.read().decode()
    assert first_after_sec < 4 <= time.monotonic() - began, "the first tick did not wait for the last"
    assert [first[0], first[1], first[3]] == [b"id: 1\n", b"event: tick\n", b"\n"]
    assert json.loads(first[2].removeprefix(b"data: "))["tick"] == 1
    assert rest.count("event: tick\n") == 2
    assert rest.endswith("\n\n")
    assert call(url + "?ticks=no").status == 400


def test_lambda_python_gets_events_of_an_api_gateway(deploy, server):
    url = deploy("lambda-python", "", "--entrypoint", "handler.lambda_handler", "--event-format", "aws-http-v2")
    pear = call(url + "/shop?fruit=pear")
    assert (pear.status, pear.json, pear.headers["Set-Cookie"]) == (200, {"fruit": "pear", "stock": 0}, "seen=1; Path=/")
    assert call(url + "?fruit=plum").status == 404
    ordered = call(url + "/orders", {"n": 2}, X_Customer="Ada", Cookie="a=1; b=2")
    assert (ordered.status, ordered.json) == (201, {"ordered": {"n": 2}, "for": "Ada", "cookies": ["a=1", "b=2"]})
    assert call(url, "{no").status == 400
    assert call(url, method="DELETE").status == 405
    wait_until(lambda: "GET /shop " in server.sless("logs", "lambda-python").stdout, "its line is in the log")


def test_report_python_runs_by_a_cron_trigger(deploy, server):
    deploy("report-python", "report", "--no-http")
    event = json.dumps({"urls": [f"{server.url}/healthz"]})
    made = server.sless("trigger", "create", "cron", "watch", "report", "*/5 * * * *", "--overlap", "forbid", "--event", event)
    assert made.returncode == 0, made.stderr
    result = json.loads(server.sless("trigger", "fire", "watch").stdout)
    assert (result["by"], [line["status"] for line in result["report"]]) == ("cron", [200])

    away = f"http://127.0.0.1:{free_port()}/"
    failed = server.sless("trigger", "fire", "watch", "-d", json.dumps({"urls": [away, f"{server.url}/nothing"]}))
    assert failed.returncode == 1 and f"no 200 from {away}, {server.url}/nothing" in failed.stdout + failed.stderr
    (row,) = json.loads(server.sless("invocations", "report", "--status", "failed", "--output", "json").stdout)
    assert (row["trigger"], row["http_status"]) == ("cron", 500)


def test_queue_node_handles_messages(deploy, server, node_binary, rabbit_server, tmp_path):
    deploy("queue-node", "orders", "--no-http")
    (tmp_path / "url").write_text(rabbit_server.url())
    made = server.sless(
        "trigger", "create", "event", "orders", "orders", "example-orders", "--amqp-url", f"@{tmp_path / 'url'}", "--max-attempts", "1"
    )
    assert made.returncode == 0, made.stderr
    wait_until(lambda: "listening on queue" in server.sless("trigger", "show", "orders").stdout, "the trigger listens")
    asyncio.run(publish(rabbit_server.url(), "example-orders", {"a1": {"item": "pear", "count": 2}, "b2": {"item": "plum"}}))

    def ended() -> dict[str, str]:
        rows = json.loads(server.sless("invocations", "orders", "--output", "json").stdout)
        return {row["request_id"]: row["status"] for row in rows}

    wait_until(lambda: ended() == {"a1": "succeeded", "b2": "dead"}, "one is done, one is dead")
    wait_until(lambda: "order a1: 2 × pear, attempt 1" in server.sless("logs", "orders").stdout, "the line of the call")
    assert asyncio.run(take(rabbit_server.url(), "example-orders.dead")) == "b2"


async def publish(url: str, queue: str, bodies: dict[str, object]) -> None:
    async with aiormq.Connection(url) as connection:
        channel = await connection.channel()
        for message_id, body in bodies.items():
            properties = Basic.Properties(content_type="application/json", message_id=message_id)
            await channel.basic_publish(json.dumps(body).encode(), routing_key=queue, properties=properties)


async def take(url: str, queue: str) -> str | None:
    """The ID of the queue's first message."""
    async with aiormq.Connection(url) as connection:
        channel = await connection.channel()
        message = await channel.basic_get(queue, no_ack=True)
        return message.header.properties.message_id
