"""A small runtime for tests of the backend and the builder: runtimes/README.md as far as they need it, one call at a time per thread.

A handler may call `overdue(n)` through `import runtime_control` to make the health answer say so.
"""

import importlib
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
import types

KEPT = ("SLESS_FUNCTION_NAME", "SLESS_VERSION")
ENV = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("SLESS_") and name not in KEPT}
OUT = os.fdopen(os.dup(1), "w", buffering=1)
CONTROL = types.ModuleType("runtime_control")
CONTROL.health = {"active": 0, "overdue": 0, "pid": os.getpid()}
CONTROL.mute = False
sys.modules["runtime_control"] = CONTROL
SEQ = iter(range(1, 1 << 30))


def log(text, call_id=""):
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    OUT.write(json.dumps({"seq": next(SEQ), "time": stamp, "stream": "stdout", "id": call_id, "text": text}) + "\n")


def watch_lifeline():
    os.read(int(ENV["SLESS_LIFELINE_FD"]), 1)
    os.killpg(0, signal.SIGKILL)


def load():
    module, _, name = ENV["SLESS_ENTRYPOINT"].replace("/", ".").rpartition(".")
    return getattr(importlib.import_module(module), name)


def answer(connection, handle):
    with connection:
        head = b""
        while b"\r\n\r\n" not in head:
            chunk = connection.recv(65536)
            if not chunk:
                return
            head += chunk
        path = head.split(b" ")[1].decode()
        if path == "/_sless/health":
            while CONTROL.mute:
                time.sleep(0.05)
            body = json.dumps(CONTROL.health)
        else:
            CONTROL.health["active"] += 1
            try:
                body = json.dumps(handle({"path": path}))
            finally:
                CONTROL.health["active"] -= 1
        connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())


def serve(handle):
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    server = socket.socket(socket.AF_UNIX)
    server.bind(ENV["SLESS_SOCKET"])
    server.listen(64)
    while True:
        threading.Thread(target=answer, args=(server.accept()[0], handle), daemon=True).start()


def run_job(handle):
    with open(ENV["SLESS_EVENT_FILE"]) as event:
        outcome = {"ok": True, "error": None, "error_type": None, "status": 200, "headers": []}
        try:
            log("job begins", ENV["SLESS_INVOCATION_ID"])
            outcome["result"] = outcome["body"] = json.dumps(handle(json.load(event)))
        except Exception as error:
            log(f"Traceback: {error}", ENV["SLESS_INVOCATION_ID"])
            outcome |= {"ok": False, "result": None, "error": str(error), "error_type": type(error).__name__, "status": 500, "body": ""}
    with open(ENV["SLESS_RESULT_FILE"] + ".new", "w") as file:
        json.dump(outcome, file)
    os.rename(ENV["SLESS_RESULT_FILE"] + ".new", ENV["SLESS_RESULT_FILE"])
    sys.exit(0 if outcome["ok"] else 1)


def main():
    threading.Thread(target=watch_lifeline, daemon=True).start()
    sys.path.insert(0, ENV["SLESS_CODE_DIR"])
    if ENV.get("SLESS_DEPS_DIR"):
        sys.path.append(ENV["SLESS_DEPS_DIR"])
    try:
        handle = load()
    except Exception:
        traceback.print_exc()
        sys.exit(1)
    {"server": serve, "job": run_job, "check": lambda _: sys.exit(0)}[ENV["SLESS_MODE"]](handle)


main()
