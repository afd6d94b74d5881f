"""Deploys and calls the bundled examples through the public API, for the demo."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

from sless import assets
from sless.cli.output import say_dim
from sless.client import Client, ClientError, DeployRequest, deploy

NODE_MAJOR = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoExample:
    name: str
    runtime: str
    event: dict[str, Any]


PYTHON = DemoExample(name="hello-python", runtime="python3.11", event={"name": "Ada"})
NODE = DemoExample(name="hello-node", runtime="nodejs20", event={"name": "Grace"})


def run_tour(client: Client) -> list[tuple[DemoExample, str]]:
    """Deploys and calls each example; returns them with their URLs. Raises ClientError on an unexpected answer."""
    shown = []
    for example in _examples():
        click.echo(f"\nDeploying examples/{example.name} ({example.runtime})")
        started_at = time.monotonic()
        request = DeployRequest(name=example.name, folder=assets.example_dir(example.name), fields={"runtime": example.runtime})
        result = deploy(client, request, _TourReport())
        if result.url is None:
            raise ClientError(message=f"{example.name} has no URL although it has an http trigger", code="no_url")
        click.echo(f"  Version {result.version} is Ready after {time.monotonic() - started_at:.1f} s")
        _call(client, result.url, example)
        shown.append((example, result.url))
    return shown


def curl_line(url: str, event: dict[str, Any]) -> str:
    return f"curl -s {url} -d '{json.dumps(event)}'"


def _call(client: Client, url: str, example: DemoExample) -> None:
    path = url.removeprefix(client.transport.url)
    started_at = time.monotonic()
    answer = client.transport.answer("POST", path, json=example.event)
    took_ms = (time.monotonic() - started_at) * 1000
    text = answer.body.decode(errors="replace").strip()
    if answer.status != 200 or example.event["name"] not in text:
        raise ClientError(message=f"{example.name}: expected 200 and a greeting, found {answer.status}: {text}", status=answer.status)
    click.echo(f"  $ {curl_line(url, example.event)}")
    click.echo(f"  {text}   ({took_ms:.0f} ms)")


def _examples() -> Iterator[DemoExample]:
    yield PYTHON
    found = _find_node_major()
    if found is not None and found >= NODE_MAJOR:
        yield NODE
    else:
        was = f"node {found}" if found is not None else "no node"
        click.echo(f"\nSkipping hello-node: expected node {NODE_MAJOR} or newer on the PATH, found {was}")


def _find_node_major() -> int | None:
    node = shutil.which("node")
    if node is None:
        return None
    try:
        shown = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=20, check=True).stdout
        return int(shown.strip().removeprefix("v").partition(".")[0])
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


class _TourReport:
    def step(self, text: str) -> None:
        click.echo(f"  {text}")

    def log(self, line: str) -> None:
        say_dim(f"    | {line}")
