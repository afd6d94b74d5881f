"""The services behave as other tests assume."""

import os

import psycopg
import pytest

from tests.services import unavailable


def test_each_database_is_new(postgres_server):
    first, second = postgres_server.create_database(), postgres_server.create_database()
    with psycopg.connect(first) as connection:
        connection.execute("CREATE TABLE a (x int)")
    with psycopg.connect(second) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


def test_the_server_does_not_run_as_root(postgres_server):
    with open(f"/proc/{postgres_server.process.pid}/status") as file:
        uid = next(line.split()[1] for line in file if line.startswith("Uid:"))
    assert uid != "0"


def test_the_time_zone_is_not_utc(postgres_url):
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SHOW timezone").fetchone() == ("Pacific/Chatham",)


def test_node_is_executable(node_binary):
    assert os.access(node_binary, os.X_OK)


def test_missing_service_fails_in_ci_and_skips_elsewhere(monkeypatch):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="apt-get install rabbitmq"):
        unavailable("RabbitMQ", "rabbitmq")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="apt-get install rabbitmq"):
        unavailable("RabbitMQ", "rabbitmq")
