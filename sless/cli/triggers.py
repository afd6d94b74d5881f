"""`sless trigger`."""

from typing import Any

import click

from sless.cli.connection import CommandContext, client_command, fail_with, for_each
from sless.cli.options import EVENT_HELP, json_of_option, with_options
from sless.cli.output import print_json, print_resource, say
from sless.cli.trigger_options import CRON, EVENT, HTTP, fields_of
from sless.cli.trigger_output import print_change, print_triggers
from sless.cli.waiting import await_invocation
from sless.client.deployment import get_workload

_FIRST = ("name", "type", "function_ref", "enabled", "active", "message")


@click.group("trigger", no_args_is_help=True)
def trigger() -> None:
    """Create, change and fire triggers: http, cron and event (AMQP queue).

    \b
    Examples:
      sless trigger create cron nightly report '30 2 * * *' --timezone Europe/Berlin
      sless trigger create http front hello --auth key
      sless trigger list
      sless trigger fire nightly
      sless trigger disable nightly
    """


@trigger.command("list")
@click.option("--function", "function_ref", metavar="NAME", help="Only triggers of this function or service.")
@click.option("--type", "kind", type=click.Choice(["http", "cron", "event"]), help="Only triggers of this type.")
@click.option("--active/--inactive", default=None, help="Only triggers that can work, or cannot.")
@client_command
def list_triggers(context: CommandContext, function_ref: str | None, kind: str | None, active: bool | None) -> None:
    """List the triggers of the namespace.

    \b
    Examples:
      sless trigger list
      sless trigger list --type cron --function report
      sless trigger list --inactive
    """
    wanted = {"function_ref": function_ref, "type": kind, "active": active}
    found = [item for item in context.client.triggers.list() if all(value in (None, item[name]) for name, value in wanted.items())]
    print_triggers(context, found)


@trigger.group("create", no_args_is_help=True)
def create() -> None:
    """Create a trigger.

    \b
    Examples:
      sless trigger create http front hello --method POST --rate-limit 60
      sless trigger create cron nightly report '30 2 * * *'
      sless trigger create event orders ship-order orders.new --amqp-url @amqp-url.txt
    """


_disabled = click.option("--disabled", is_flag=True, help="Create it disabled.")


@create.command("http")
@click.argument("name")
@click.argument("function")
@with_options(*HTTP, _disabled)
@client_command
def create_http(context: CommandContext, name: str, function: str, disabled: bool, **options: Any) -> None:
    """Give FUNCTION (or a service) a URL. With --auth key, prints the API key, which is shown only once.

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
    """Call FUNCTION (or a service) on a schedule. SCHEDULE has five cron fields (minute hour day month weekday), or is @hourly, @daily …

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

    The file in the examples contains amqps://user:password@host/vhost. Without --amqp-url, the operator's broker is used; queue names
    there start with your namespace and a dot.

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
    """Show a trigger.

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
@click.option("--function", "function_ref", metavar="NAME", help="Function or service to call.")
@click.option("--schedule", metavar="CRON", help="Schedule of a cron trigger.")
@click.option("--queue", metavar="QUEUE", help="Queue of an event trigger.")
@with_options(*HTTP, *CRON, *EVENT)
@click.option("--all-methods", is_flag=True, help="Allow all methods.")
@click.option("--no-cors", is_flag=True, help="Send no CORS headers.")
@client_command
def update(context: CommandContext, name: str, all_methods: bool, no_cors: bool, **options: Any) -> None:
    """Change the given options and keep the others. Takes effect immediately.

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
    """Enable triggers.

    A cron trigger does not make up for firings missed while disabled.

    \b
    Example:
      sless trigger enable nightly
    """
    _switch(context, names, True)


@trigger.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@client_command
def disable(context: CommandContext, names: tuple[str, ...]) -> None:
    """Disable triggers without deleting them. A function whose http trigger is disabled answers 503 and has no instances.

    \b
    Example:
      sless trigger disable nightly
    """
    _switch(context, names, False)


@trigger.command()
@click.argument("name")
@click.option("-d", "--data", default=None, metavar="JSON|@FILE|-", help=EVENT_HELP + " Default: the trigger's.")
@click.option("--no-wait", is_flag=True, help="Print the invocation ID and do not wait.")
@client_command
def fire(context: CommandContext, name: str, data: str | None, no_wait: bool) -> None:
    """Fire a trigger now and print the result. Works for disabled triggers too.

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
    function_ref = str(context.client.triggers.get(name)["function_ref"])
    call = await_invocation(get_workload(context.client, function_ref)[0], function_ref, accepted["id"])
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
    """Replace the API key of an http trigger and print the new one.

    The key is shown only once; the old one stops working immediately. The trigger must have --auth key.

    \b
    Example:
      sless trigger rotate-key front
    """
    changed = context.client.triggers.merge(name, {"rotate_key": True})
    if "api_key" not in changed:
        raise click.ClickException(
            f'trigger "{name}": expected auth "key", found "{changed.get("auth")}"; `sless trigger update {name} --auth key` sets it'
        )
    print_json(changed) if context.as_json else click.echo(changed["api_key"])


@trigger.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@client_command
def delete(context: CommandContext, names: tuple[str, ...]) -> None:
    """Delete triggers. Their functions stay.

    \b
    Example:
      sless trigger delete nightly
    """

    def delete_one(name: str) -> dict[str, str]:
        context.client.triggers.delete(name)
        say(f'trigger "{name}" deleted')
        return {"name": name, "kind": "trigger"}

    deleted, errors = for_each(names, delete_one)
    if context.as_json:
        print_json(deleted)
    fail_with(errors)


def _create(context: CommandContext, body: dict[str, Any]) -> None:
    print_change(context, context.client.triggers.create(body), "Created")


def _switch(context: CommandContext, names: tuple[str, ...], enabled: bool) -> None:
    changed, errors = for_each(names, lambda name: context.client.triggers.merge(name, {"enabled": enabled}))
    if context.as_json:
        print_json(changed)
    else:
        for item in changed:
            following = f"; next at {item['next_schedule_time']}" if item.get("next_schedule_time") else ""
            say(f'trigger "{item["name"]}" {"enabled" if enabled else "disabled"}{following}')
    fail_with(errors)
