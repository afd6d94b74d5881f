"""`sless trigger …`: what sets functions and services off."""

import functools
import time
from typing import Any

import click

from sless.cli.connection import CommandContext, client_command
from sless.cli.output import print_json, print_resource, say
from sless.cli.trigger_options import CRON, EVENT, EVENT_HELP, HTTP, fields_of, json_of_option, with_options
from sless.cli.trigger_output import print_change, print_triggers
from sless.cli.waiting import OPEN, explained_interrupt
from sless.client import Client
from sless.client.deployment import get_workload

FIRE_SEC = 3700.0
"""A call may take an hour on a service without a time limit."""
_FIRST = ("name", "type", "function_ref", "enabled", "active", "message")


@click.group("trigger", no_args_is_help=True)
def trigger() -> None:
    """Make, change and fire triggers: http, cron and event (AMQP queue).

    \b
    Examples:
      sless trigger create cron nightly report '30 2 * * *' --timezone Europe/Berlin
      sless trigger create http front hello --auth key
      sless trigger list
      sless trigger fire nightly
      sless trigger disable nightly
    """


@trigger.command("list")
@click.option("--function", "function_ref", metavar="NAME", help="Only those of this function or service.")
@click.option("--type", "kind", type=click.Choice(["http", "cron", "event"]), help="Only those of this type.")
@client_command
def list_triggers(context: CommandContext, function_ref: str | None, kind: str | None) -> None:
    """List the triggers of the namespace.

    \b
    Examples:
      sless trigger list
      sless trigger list --type cron --function report
    """
    found = [
        item for item in context.client.triggers.list() if function_ref in (None, item["function_ref"]) and kind in (None, item["type"])
    ]
    print_triggers(context, found)


@trigger.group("create", no_args_is_help=True)
def create() -> None:
    """Make a trigger of one of three types.

    \b
    Examples:
      sless trigger create http front hello --method POST --rate-limit 60
      sless trigger create cron nightly report '30 2 * * *'
      sless trigger create event orders ship-order orders.new --amqp-url @amqp-url.txt
    """


_disabled = click.option("--disabled", is_flag=True, help="Make it, but let nothing happen yet.")


@create.command("http")
@click.argument("name")
@click.argument("function")
@with_options(*HTTP, _disabled)
@client_command
def create_http(context: CommandContext, name: str, function: str, disabled: bool, **options: Any) -> None:
    """Make FUNCTION (or a service) answer at its URL. With --auth key the new API key is printed, this once.

    \b
    Examples:
      sless trigger create http front hello
      sless trigger create http front hello --auth key --rate-limit 600
      sless trigger create http front hello --cors-origin https://example.org --cors-max-age 3600
    """
    _create(context, {"name": name, "type": "http", "function_ref": function, "enabled": not disabled, **fields_of(options)})


@create.command("cron")
@click.argument("name")
@click.argument("function")
@click.argument("schedule")
@with_options(*CRON, _disabled)
@client_command
def create_cron(context: CommandContext, name: str, function: str, schedule: str, disabled: bool, **options: Any) -> None:
    """Call FUNCTION (or a service) by the clock. SCHEDULE is five cron fields (minute hour day month weekday), or @hourly, @daily …

    \b
    Examples:
      sless trigger create cron nightly report '30 2 * * *' --timezone Europe/Berlin
      sless trigger create cron poll fetch '*/5 * * * *' --overlap forbid --event '{"full": false}'
    """
    known = {"name": name, "type": "cron", "function_ref": function, "schedule": schedule, "enabled": not disabled}
    _create(context, known | fields_of(options))


@create.command("event")
@click.argument("name")
@click.argument("function")
@click.argument("queue")
@with_options(*EVENT, _disabled)
@client_command
def create_event(context: CommandContext, name: str, function: str, queue: str, disabled: bool, **options: Any) -> None:
    """Call FUNCTION (or a service) for each message of an AMQP QUEUE.

    The file of the examples holds amqps://user:password@host/vhost. Without --amqp-url it is the operator's broker, where the names of your
    queues start with your namespace and a dot.

    \b
    Examples:
      sless trigger create event orders ship-order orders.new --amqp-url @amqp-url.txt
      sless trigger create event orders ship-order orders.new --amqp-url @amqp-url.txt --prefetch 20 --max-attempts 3
    """
    known = {"name": name, "type": "event", "function_ref": function, "queue": queue, "enabled": not disabled}
    _create(context, known | fields_of(options))


@trigger.command()
@click.argument("name")
@client_command
def show(context: CommandContext, name: str) -> None:
    """Show everything about a trigger.

    \b
    Example:
      sless trigger show nightly
    """
    found = context.client.triggers.get(name)
    if context.as_json:
        print_json(found)
        return
    print_resource(found, _FIRST, left_out=("function",))


trigger.add_command(show, "describe")


@trigger.command()
@click.argument("name")
@click.option("--function", "function_ref", metavar="NAME", help="Function or service it refers to.")
@click.option("--schedule", metavar="CRON", help="Of a cron trigger.")
@click.option("--queue", metavar="QUEUE", help="Of an event trigger.")
@with_options(*HTTP, *CRON, *EVENT)
@click.option("--all-methods", is_flag=True, help="No restriction of methods any more.")
@click.option("--no-cors", is_flag=True, help="No CORS headers any more.")
@client_command
def update(context: CommandContext, name: str, all_methods: bool, no_cors: bool, **options: Any) -> None:
    """Change what is given, keep the rest. It takes effect at once.

    \b
    Examples:
      sless trigger update nightly --schedule '0 4 * * *' --grace 3600
      sless trigger update front --rate-limit 0 --cors-origin '*'
    """
    known = context.client.triggers.get(name)
    fields = fields_of(options, known.get("cors")) | ({"methods": []} if all_methods else {}) | ({"cors": None} if no_cors else {})
    if not fields:
        raise click.UsageError("nothing to change: give at least one option")
    print_change(context, context.client.triggers.merge(name, fields), "Changed")


@trigger.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@client_command
def enable(context: CommandContext, names: tuple[str, ...]) -> None:
    """Let triggers work again.

    What a cron trigger has missed since is not made up for.

    \b
    Example:
      sless trigger enable nightly
    """
    _switch(context, names, True)


@trigger.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@client_command
def disable(context: CommandContext, names: tuple[str, ...]) -> None:
    """Stop triggers without deleting them. Without its http trigger a function answers 503 and has no instances.

    \b
    Example:
      sless trigger disable nightly
    """
    _switch(context, names, False)


@trigger.command()
@click.argument("name")
@click.option("-d", "--data", default=None, metavar="JSON|@FILE|-", help=EVENT_HELP + " Else the trigger's own.")
@click.option("--no-wait", is_flag=True, help="Do not wait for the result; print the invocation's id.")
@client_command
def fire(context: CommandContext, name: str, data: str | None, no_wait: bool) -> None:
    """Call what the trigger refers to, now, and print the result. Works for disabled triggers too.

    \b
    Examples:
      sless trigger fire nightly
      sless trigger fire nightly -d '{"day": "2026-01-31"}' --no-wait
    """
    event = None if data is None else json_of_option("--data", data)
    accepted = context.client.triggers.fire(name, event)
    if no_wait:
        print_json(accepted) if context.as_json else click.echo(accepted["id"])
        return
    call = _await_firing(context.client, str(context.client.triggers.get(name)["function_ref"]), accepted["id"])
    if context.as_json:
        print_json(call)
    elif call["status"] == "succeeded":
        click.echo(call.get("result") or "null")
    if call["status"] != "succeeded":
        say(f"Error: invocation {call['id']} {call['status']}: {call.get('error') or 'no reason given'}")
        raise click.exceptions.Exit(1)


@trigger.command("rotate-key")
@click.argument("name")
@client_command
def rotate_key(context: CommandContext, name: str) -> None:
    """Print a new API key of an http trigger.

    It is shown this once, and the old one ends at once. The trigger has --auth key.

    \b
    Example:
      sless trigger rotate-key front
    """
    changed = context.client.triggers.merge(name, {"rotate_key": True})
    if "api_key" not in changed:
        raise click.ClickException(f'http trigger "{name}" has auth "{changed.get("auth")}": expected "key" (`--auth key` makes one)')
    print_json(changed) if context.as_json else click.echo(changed["api_key"])


@trigger.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@client_command
def delete(context: CommandContext, names: tuple[str, ...]) -> None:
    """Delete triggers. What they refer to stays.

    \b
    Example:
      sless trigger delete nightly
    """
    for name in names:
        context.client.triggers.delete(name)
        say(f'trigger "{name}" deleted')
    if context.as_json:
        print_json([{"name": name, "kind": "trigger"} for name in names])


def _create(context: CommandContext, body: dict[str, Any]) -> None:
    print_change(context, context.client.triggers.create(body), "Created")


def _switch(context: CommandContext, names: tuple[str, ...], enabled: bool) -> None:
    changed = [context.client.triggers.merge(name, {"enabled": enabled}) for name in names]
    if context.as_json:
        print_json(changed)
        return
    for item in changed:
        following = f"; next at {item['next_schedule_time']}" if item.get("next_schedule_time") else ""
        say(f'trigger "{item["name"]}" {"enabled" if enabled else "disabled"}{following}')


def _await_firing(client: Client, target: str, invocation_id: str) -> dict[str, Any]:
    workloads, _ = get_workload(client, target, None)
    read = functools.partial(workloads.invocation, target, invocation_id)
    deadline, pause_sec = time.monotonic() + FIRE_SEC, 0.05
    with explained_interrupt(f"the call goes on; `sless invocations show {target} {invocation_id}` shows it"):
        while (call := read())["status"] in OPEN and time.monotonic() < deadline:
            time.sleep(pause_sec)
            pause_sec = min(1.0, pause_sec * 1.5)
        return call
