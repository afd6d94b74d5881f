#!/usr/bin/env python3
"""Tries to break the services of this example, and checks at the end that no write was lost.

    SLESS_ENDPOINT=… SLESS_API_TOKEN=… python3 marathon.py --minutes 2

Smoke, careless users, idempotency and recreation run once; load, slow queries, crashes and redeployments repeat until the time is
up. Needs only Python's standard library. The exit code is 1 if a check failed.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from marathon_client import Client, Failed, Ledger, check, percentile

THREADS = 12
CARELESS = (
    *(None, -1, 1.5, 10**100, -(10**30), True, False, [], [1, [2]], {}, {"a": {"b": 1}}),
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
    "go-pg-race": ("workers", "n_per_worker"),
    "go-counter-atomic": ("other",),
    "js-pg-batch": ("n",),
    "js-idempotent": ("title",),
    "py-retry-writer": ("n", "simulate_error"),
    "stress-bigloop": ("n",),
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
                answer = self.client.call(service, {"prefix": prefix, "title": prefix, "idempotency_key": prefix} | {field: value})
                check(answer.status < 500, f"{service} {field}={str(value)[:60]!r}: {answer.status} {answer.text[:300]}")
                found = answer.json if answer.status == 200 and isinstance(answer.json, dict) else {}
                made = service in ("pg-upsert", "pg-table-writer") or found.get("action") == "created"
                # An unusable title is replaced by one that the final count does not include.
                usable = field != "title" or (isinstance(value, str) and value.startswith(prefix))
                record(rows(found) if "inserted" in found else int(made and usable and answer.status == 200))

        self.each([(field, value) for field in CARELESS_FIELDS[service] for value in CARELESS], one)
        for event in (None, [], 1, "text", True):
            answer = self.client.call(service, event) if service not in WRITERS else None
            check(answer is None or answer.status < 500, f"{service} {event!r}: {answer and answer.text[:300]}")

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

    def recreation(self) -> None:
        """Creates, changes, calls and deletes a service over REST, with the code of another."""
        name = "marathon-" + self.ledger.run[:6]
        files = self.client.rest("GET", "services/chaos-echo/source")["files"]
        spec = {"name": name, "runtime": "python3.11", "entrypoint": "chaos_echo.echo"}
        self.client.rest("POST", "services", spec)
        try:
            self.client.rest("POST", f"services/{name}/upload", {"files": files})
            self.client.await_version(name, 1)
            check(self.client.call(name, [1]).json["echo"] == [1], "another answer")
            self.client.rest("PATCH", f"services/{name}", {"memory_mb": 192})
            self.client.await_version(name, 1)
            check(self.client.call(name, [2]).json["echo"] == [2], "another answer")
        finally:
            self.client.rest("DELETE", f"services/{name}")
        self.client.await_gone(name)

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

    def redeployment(self) -> None:
        """Deploys new versions of a service while calling it: no call may fail."""
        name = "chaos-echo"
        before = self.client.rest("GET", f"services/{name}")
        files = self.client.rest("GET", f"services/{name}/source")["files"]
        changed = files | {"marathon.txt": self.ledger.prefix()}
        for body in ({"files": changed}, {"files": files, "code_hash": before["code_hash"]}):
            uploaded = self.client.rest("POST", f"services/{name}/upload", body)
            ready = self.pool.submit(self.client.await_version, name, uploaded["version"])
            while not ready.done():
                self.echo({"during": "redeployment"})
            ready.result()

    # ---- parts

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


WRITERS = frozenset({"pg-bulk-insert", "go-pg-race", "js-pg-batch", "py-retry-writer"})
"""Services that write rows with their own prefix when the call has none."""


class Report:
    def __init__(self) -> None:
        self.began = time.monotonic()
        self.outcomes: list[bool] = []

    def run(self, name: str, work: Callable[[], object]) -> None:
        began, failure = time.monotonic(), ""
        try:
            work()
        except (Failed, OSError, KeyError, TypeError, ValueError) as error:
            failure = f"{type(error).__name__}: {error}"
        self.outcomes.append(not failure)
        print(f"{name:<40} {'FAILED' if failure else 'PASSED'} {time.monotonic() - began:6.1f} s", flush=True)
        if failure:
            print(f"    {failure}", flush=True)

    def end(self, durations: list[float]) -> int:
        failed = self.outcomes.count(False)
        print(f"== {len(self.outcomes) - failed} passed, {failed} failed in {time.monotonic() - self.began:.0f} s")
        print(f"   {len(durations)} calls, p50 {percentile(durations, 50):.0f} ms, p99 {percentile(durations, 99):.0f} ms")
        return 1 if failed else 0


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
    report.run("recreation", marathon.recreation)
    rounds = 0
    while time.monotonic() < deadline or not rounds:
        rounds += 1
        for work in (marathon.load, marathon.slow_queries, marathon.crashes, marathon.redeployment):
            report.run(f"round {rounds}::{work.__name__}", work)
    report.run("count", marathon.count)
    marathon.pool.shutdown()
    return report.end(client.durations_ms)


if __name__ == "__main__":
    sys.exit(main())
