#!/usr/bin/env python3
"""Tries to break the services of this example, and checks at the end that no write was lost.

    SLESS_ENDPOINT=… SLESS_API_TOKEN=… python3 marathon.py --minutes 2

Smoke, careless users, idempotency and time-outs run once; load, slow queries, crashes, and new services and versions under load repeat
until the time is up. Needs only Python's standard library. The exit code is 1 if a check failed.
"""

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from marathon_client import Client, Ledger, check
from marathon_report import Report

THREADS = 12
CALLERS = 5
"""Threads that write and read while something is deployed."""
CARELESS = (
    *(None, -1, 1.5, 10**100, -(10**30), 10**400, True, False, [], [1, [2]], {}, {"a": {"b": 1}}),
    *("", " ", "0", "x" * 20_000, "'; DROP TABLE terraform_demo_table; --", "%_\\", "\0", "\ud800", "🐙 ñ 漢字"),
)
CARELESS_FIELDS = {
    "pg-counter": ("prefix",),
    "pg-dedup": ("dry_run",),
    "pg-search": ("query", "limit", "offset"),
    "pg-bulk-insert": ("n",),
    "pg-delete-old": ("older_than_min", "older_than_minutes"),
    "pg-upsert": ("other",),
    "pg-table-writer": ("other",),
    "pg-info": ("other",),
    "pg-table-reader": ("other",),
    "chaos-echo": ("any",),
    "chaos-badparams": ("n", "name", "flag"),
    "chaos-bigpayload": ("size_kb",),
    "chaos-slowquery": ("seconds",),
    "go-pg-race": ("workers", "n_per_worker"),
    "go-counter-atomic": ("other",),
    "js-pg-batch": ("n",),
    "js-idempotent": ("title",),
    "py-retry-writer": ("n", "simulate_error"),
    "stress-bigloop": ("n",),
    "stress-divzero": ("n",),
    "stress-go-fast": ("n",),
}
"""service → fields that get every careless value. Rows that it writes count like any others."""


class Marathon:
    def __init__(self, client: Client) -> None:
        self.client = client
        self.ledger = Ledger()
        self.pool = ThreadPoolExecutor(THREADS)

    def call(self, service: str, event: object, status: int = 200) -> dict:
        answer = self.client.call(service, event)
        check(answer.status == status, f"{service} {str(event)[:200]}: expected {status}, found {answer.status} {answer.text[:300]}")
        return answer.json

    def write(self, service: str, event: dict, rows: Callable[[dict], int]) -> dict:
        """A call whose rows are recorded in the ledger. If it fails, their number is unknown."""
        with self.ledger.writing() as record:
            answer = self.call(service, event)
            record(rows(answer))
        return answer

    # ---- once

    def smoke(self) -> Iterator[tuple[str, Callable[[], None]]]:
        yield "pg-info", lambda: check("PostgreSQL" in self.call("pg-info", {})["version"], "no version")
        yield "bulk-insert", lambda: check(self.bulk(5)["inserted"] == 5, "not 5 rows")
        yield "batch", lambda: check(self.call("js-pg-batch", {"n": 0}) == {"inserted": 0, "first_id": None}, "n = 0 inserts nothing")
        yield "race", lambda: check(self.race(4, 3)["errors"] == 0, "errors")
        yield "retry", lambda: check(self.retry()["attempts"] >= 2, "no second attempt")
        yield "search", self.search
        yield "reader", lambda: check(self.call("pg-table-reader", {})["count"] > 0, "no rows")
        yield "dedup", self.dedup
        yield "echo", lambda: [self.echo(value) for value in ([1, "a"], True, 42, {"b": None}, "text", 1.5)]
        yield "counter", lambda: check(self.invocation() < self.invocation(), "the count does not grow")
        yield "factorial", lambda: check(self.call("stress-go-fast", {"n": 5})["factorial"] == 120, "5! is 120")
        yield "big payload", lambda: check(self.call("chaos-bigpayload", {"size_kb": 9999})["items_count"] == 256, "the cap is 256")

    def careless(self, service: str) -> None:
        def one(field: str, value: object) -> None:
            prefix, rows = self.ledger.prefix(), lambda answer: int(answer.get("inserted") or 0)
            with self.ledger.writing() as record:
                answer = self.client.call(service, {"prefix": prefix, "title": prefix, "idempotency_key": prefix, "d": 2} | {field: value})
                check(answer.status < 500, f"{service} {field}={str(value)[:60]!r}: {answer.status} {answer.text[:300]}")
                found = answer.json if answer.status == 200 and isinstance(answer.json, dict) else {}
                made = service in ("pg-upsert", "pg-table-writer") or found.get("action") == "created"
                # An unusable title is replaced by one that the final count does not include.
                usable = field != "title" or (isinstance(value, str) and value.startswith(prefix))
                record(rows(found) if "inserted" in found else int(made and usable and answer.status == 200))

        self.each([(field, value) for field in CARELESS_FIELDS[service] for value in CARELESS], one)

        def bare(event: object) -> None:
            answer = self.client.call(service, event)
            check(answer.status < 500, f"{service} {event!r}: {answer.status} {answer.text[:300]}")

        if service not in NOT_BARE:
            self.each([(event,) for event in (None, [], 1, "text", True)], bare)

    def idempotency(self) -> None:
        for _ in range(3):
            key = self.ledger.prefix()
            answers = self.each([(key,)] * 8, lambda key: self.call("js-idempotent", {"idempotency_key": key, "title": key}))
            created = [answer for answer in answers if answer["action"] == "created"]
            self.ledger.add(len(created))
            check(len(created) == 1 and len({answer["id"] for answer in answers}) == 1, f"one row expected: {answers}")
            answers = self.each([(key,)] * 8, lambda key: self.call("pg-upsert", {"title": f"{key}-upsert"}))
            self.ledger.add(sum(answer["action"] == "inserted" for answer in answers))
            check(len({answer["id"] for answer in answers}) == 1, f"one id expected: {answers}")

    def time_outs(self) -> None:
        """A query that takes longer than its service may: the call ends with a 504, and the next one works."""
        name = "chaos-slowquery"
        before = self.client.rest("GET", f"services/{name}")
        try:
            self.change(name, {"timeout_sec": 1})
            for _ in range(2):
                self.call(name, {"sleep_sec": 3}, 504)
                check(self.call(name, {"sleep_sec": 0})["slept_sec"] == 0, "slept")
        finally:
            self.change(name, {"timeout_sec": before["timeout_sec"]})

    # ---- repeated

    def load(self, seconds: float = 6.0) -> None:
        """Every thread writes rows and reads them back."""
        deadline = time.monotonic() + seconds

        def worker(number: int) -> None:
            while time.monotonic() < deadline:
                self.bulk(3)
                self.batch(2)
                self.race(2, 2)
                self.retry()
                title = self.ledger.prefix()
                self.write("pg-table-writer", {"title": title}, lambda answer: 1)
                check(self.call("pg-counter", {"prefix": title})["total"] == 1, "a row that was just written is not there")
                self.search()
                self.echo({"number": number})

        self.each([(number,) for number in range(THREADS)], worker)

    def slow_queries(self) -> None:
        began = time.monotonic()
        slow = [self.pool.submit(self.call, "chaos-slowquery", {"sleep_sec": 2}) for _ in range(6)]
        check(self.call("pg-counter", {"prefix": self.ledger.run})["total"] >= 0, "no count")
        check([future.result()["slept_sec"] for future in slow] == [2.0] * 6, "not slept")
        check(time.monotonic() - began < 11, "slow calls waited for one another")

    def crashes(self) -> None:
        for _ in range(3):
            self.call("stress-go-nil", {}, 500)
            self.call("stress-go-nil", {"crash": False})
            self.call("stress-divzero", {}, 500)
            check(self.call("stress-divzero", {"n": 1, "d": 2})["result"] == 0.5, "1 / 2")

    def recreation(self) -> None:
        """Creates, changes, calls and deletes a service over REST while others are called."""
        name = "marathon-" + self.ledger.run[:6]
        files = self.client.rest("GET", "services/chaos-echo/source")["files"]
        with self.load_around():
            self.client.rest("POST", "services", {"name": name, "runtime": "python3.11", "entrypoint": "chaos_echo.echo"})
            try:
                self.client.rest("POST", f"services/{name}/upload", {"files": files})
                self.client.await_version(name, 1)
                check(self.client.call(name, [1]).json["echo"] == [1], "another answer")
                self.change(name, {"memory_mb": 192})
                check(self.client.call(name, [2]).json["echo"] == [2], "another answer")
            finally:
                self.client.rest("DELETE", f"services/{name}")
            self.client.await_gone(name)

    def redeployment(self) -> None:
        """Deploys new versions of a service while it is called: no call may fail."""
        name = "chaos-echo"
        before = self.client.rest("GET", f"services/{name}")
        files = self.client.rest("GET", f"services/{name}/source")["files"]
        changed = files | {"marathon.txt": self.ledger.prefix()}
        with self.load_around():
            for body in ({"files": changed}, {"files": files, "code_hash": before["code_hash"]}):
                uploaded = self.client.rest("POST", f"services/{name}/upload", body)
                self.client.await_version(name, uploaded["version"])

    # ---- parts

    def change(self, name: str, fields: dict) -> None:
        changed = self.client.rest("PATCH", f"services/{name}", fields)
        self.client.await_version(name, changed["active_version"])

    @contextmanager
    def load_around(self) -> Iterator[None]:
        """Threads write, and call what is being deployed, until the block ends. Raises their first failure."""
        ended = threading.Event()

        def caller() -> None:
            while not ended.is_set():
                self.echo({"during": "a deployment"})
                self.bulk(1)

        futures = [self.pool.submit(caller) for _ in range(CALLERS)]
        try:
            yield
        finally:
            ended.set()
        for future in futures:
            future.result()

    def each(self, arguments: list[tuple], work: Callable) -> list:
        """Runs in parallel; raises the first failure once all have ended."""
        futures = [self.pool.submit(work, *given) for given in arguments]
        errors = [error for future in futures if (error := future.exception())]
        if errors:
            raise errors[0]
        return [future.result() for future in futures]

    def bulk(self, n: int) -> dict:
        return self.write("pg-bulk-insert", {"n": n, "prefix": self.ledger.prefix()}, lambda answer: answer["inserted"])

    def batch(self, n: int) -> dict:
        return self.write("js-pg-batch", {"n": n, "prefix": self.ledger.prefix()}, lambda answer: answer["inserted"])

    def race(self, workers: int, rows: int) -> dict:
        event = {"workers": workers, "n_per_worker": rows, "prefix": self.ledger.prefix()}
        return self.write("go-pg-race", event, lambda answer: answer["inserted"])

    def retry(self) -> dict:
        event = {"n": 2, "prefix": self.ledger.prefix(), "simulate_error": True}
        return self.write("py-retry-writer", event, lambda answer: answer["inserted"])

    def search(self) -> None:
        found = self.call("pg-search", {"query": self.ledger.run, "limit": 3, "offset": 1})
        check(found["limit"] == 3 and found["count"] == len(found["rows"]) <= 3, f"wrong page: {found}")
        check(self.call("pg-search", {"query": self.ledger.run, "limit": 0})["rows"] == [], "limit 0 gives no rows")
        check(self.call("pg-search", {"query": f"{self.ledger.run}%"})["total"] == 0, "% stands for itself")

    def dedup(self) -> None:
        title = self.ledger.prefix()
        for _ in range(3):
            self.write("pg-table-writer", {"title": title}, lambda answer: 1)
        check(self.call("pg-dedup", {"dry_run": True})["deleted"] == 0, "a dry run deletes nothing")
        check(self.call("pg-dedup", {})["deleted"] >= 2, "two duplicates are deleted")
        self.ledger.add(-2)
        check(self.call("pg-dedup", {})["duplicates_found"] == 0, "a second run finds nothing")

    def echo(self, value: object) -> None:
        check(self.call("chaos-echo", value)["echo"] == value, f"another echo of {value!r}")

    def invocation(self) -> int:
        return int(self.call("go-counter-atomic", {})["invocation_n"])

    def count(self) -> None:
        total = self.call("pg-counter", {"prefix": self.ledger.run})["total"]
        check(self.ledger.fits(total), f"expected {self.ledger}, found {total}")


NOT_BARE = frozenset({"pg-bulk-insert", "go-pg-race", "js-pg-batch", "py-retry-writer", "stress-divzero"})
"""Without fields these write rows that the final count does not include, or divide by zero."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--endpoint", default=os.environ.get("SLESS_ENDPOINT", "http://127.0.0.1:9090"))
    parser.add_argument("--token", default=os.environ.get("SLESS_API_TOKEN", ""))
    arguments = parser.parse_args()
    client = Client(arguments.endpoint, arguments.token)
    marathon, report = Marathon(client), Report()
    deadline = time.monotonic() + arguments.minutes * 60
    for name, work in marathon.smoke():
        report.run(f"smoke::{name}", work)
    for service in CARELESS_FIELDS:
        report.run(f"careless::{service}", lambda service=service: marathon.careless(service))
    report.run("idempotency", marathon.idempotency)
    report.run("time-outs", marathon.time_outs)
    rounds = 0
    while time.monotonic() < deadline or not rounds:
        rounds += 1
        for work in (marathon.load, marathon.slow_queries, marathon.crashes, marathon.recreation, marathon.redeployment):
            report.run(f"round {rounds}::{work.__name__}", work)
    report.run("count", marathon.count)
    marathon.pool.shutdown()
    return report.end(client.durations_ms)


if __name__ == "__main__":
    sys.exit(main())
