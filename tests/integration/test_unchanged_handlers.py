"""Handlers written for other platforms run unchanged, also with the packages that people use there."""

import json
import os
from typing import Any

import pytest
import requests

from tests.services.product import Tenant

WEB_PACKAGES = "mangum==0.22.0\nfastapi==0.165.0\napig-wsgi==2.20.0\n"
BOT_PACKAGES = ["aiogram==3.0.0", *(["aiogram==3.31.0"] if "TEST_SOAK_MESSAGES" in os.environ else [])]
"""The oldest release with the current interface takes 3 s of processor time to import, the newest 8 s."""
FASTAPI = """
import sqlite3
from fastapi import FastAPI, Request
from mangum import Mangum

app = FastAPI()
database = sqlite3.connect(":memory:")

@app.post("/items/{item}")
async def item(item: int, request: Request, q: str = ""):
    return {"item": item, "q": q, "body": await request.json(), "one": database.execute("select 1").fetchone()[0]}

handler = Mangum(app, lifespan="auto")
"""
WSGI = """
from apig_wsgi import make_lambda_handler

def application(environ, start_response):
    start_response("201 Created", [("Content-Type", "text/plain"), ("X-Method", environ["REQUEST_METHOD"])])
    return [(environ["PATH_INFO"] + "?" + environ["QUERY_STRING"] + " ").encode(), environ["wsgi.input"].read()]

handler = make_lambda_handler(application)
"""
BOT = """
import asyncio, json
from aiogram import Bot, Dispatcher
from aiogram.methods import SendMessage
from aiogram.types import Message, Update

bot, dispatcher = Bot("1:token"), Dispatcher()

@dispatcher.message()
async def echo(message: Message):
    return SendMessage(chat_id=message.chat.id, text="you said " + message.text)

async def process(event):
    answer = await dispatcher.feed_webhook_update(bot, Update.model_validate(json.loads(event["body"])))
    return {"method": answer.__api_method__, "chat_id": answer.chat_id, "text": answer.text}

def handler(event, context):
    return {"statusCode": 200, "body": json.dumps(asyncio.get_event_loop().run_until_complete(process(event)))}
"""
YANDEX = """
import base64, json

def handler(event, context):
    body = base64.b64decode(event["body"]).decode() if event["isBase64Encoded"] else event["body"]
    name = event["queryStringParameters"].get("name", "world")
    return {
        "statusCode": 200,
        "headers": {"Content-Type": "application/json"},
        "isBase64Encoded": False,
        "body": json.dumps({
            "text": f"hello {name}", "method": event["httpMethod"], "body": body, "many": event["multiValueQueryStringParameters"]["name"],
            "agent": event["headers"]["User-Agent"], "ip": event["requestContext"]["identity"]["sourceIp"],
            "same": event["requestContext"]["requestId"] == context.request_id,
            "function": [context.function_name, context.function_version, context.memory_limit_in_mb],
        }),
    }
"""
ALICE = """
def handler(event, context):
    text = "Привет!"
    if "request" in event and event["request"]["original_utterance"]:
        text = event["request"]["original_utterance"]
    return {
        "version": event["version"], "session": event["session"], "response": {"text": text, "end_session": "false"},
    }
"""


def call(tenant: Tenant, path: str, body: Any, **options: Any) -> requests.Response:
    return requests.post(tenant.product.url + path, json=body, timeout=60, **options)


def test_a_handler_for_yandex_runs_unchanged(tenant: Tenant) -> None:
    path = tenant.deploy("y", {"index.py": YANDEX}, entrypoint="index.handler", event_format="aws-http-v1")
    answer = call(tenant, path, {"a": "ü"}, params={"name": ["Eve", "Ada"]}, headers={"User-Agent": "test"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == {
        "text": "hello Ada", "method": "POST", "body": json.dumps({"a": "ü"}), "many": ["Eve", "Ada"], "agent": "test", "ip": "127.0.0.1",
        "same": True, "function": ["y", "1", 128],
    }  # fmt: skip


def test_a_skill_for_alice_runs_unchanged(tenant: Tenant) -> None:
    path = tenant.deploy("alice", {"index.py": ALICE}, entrypoint="index.handler")
    session = {"message_id": 1, "new": True, "user_id": "u"}
    answer = call(tenant, path, {"version": "1.0", "session": session, "request": {"original_utterance": "как дела", "command": ""}})
    assert answer.json() == {"version": "1.0", "session": session, "response": {"text": "как дела", "end_session": "false"}}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_web_frameworks_run_behind_their_adapters(tenant: Tenant) -> None:
    files = {"web.py": FASTAPI, "wsgi.py": WSGI, "requirements.txt": WEB_PACKAGES}
    for name, event_format in (("web1", "aws-http-v1"), ("web2", "aws-http-v2")):
        path = tenant.deploy(name, files, entrypoint="web.handler", event_format=event_format, memory_mb=256)
        for number in range(3):
            answer = call(tenant, f"{path}/items/{number}", {"n": number}, params={"q": "ä"})
            assert answer.json() == {"item": number, "q": "ä", "body": {"n": number}, "one": 1}, answer.text
        assert call(tenant, f"{path}/items/x", {}).status_code == 422
    path = tenant.deploy("wsgi", files, entrypoint="wsgi.handler", event_format="aws-http-v1", memory_mb=256)
    answer = call(tenant, f"{path}/a", [1], params={"q": "1"})
    assert (answer.status_code, answer.headers["x-method"], answer.text.split(" ")[1]) == (201, "POST", "[1]")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("package", BOT_PACKAGES)
def test_a_telegram_bot_answers_updates(tenant: Tenant, package: str) -> None:
    files = {"bot.py": BOT, "requirements.txt": package + "\n"}
    path = tenant.deploy("bot", files, entrypoint="bot.handler", event_format="aws-http-v1", memory_mb=256)
    for number in range(2):
        message = {"message_id": number, "date": 1, "chat": {"id": 7, "type": "private"}, "text": "hi"}
        answer = call(tenant, path, {"update_id": number, "message": message})
        assert answer.json() == {"method": "sendMessage", "chat_id": 7, "text": "you said hi"}, answer.text
