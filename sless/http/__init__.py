"""REST, OpenAPI, metrics and the plain pages, as one Flask application. Short answers only; `asgi` serves calls and streams.

`operation` one row per path and method, which registers the view and generates its OpenAPI entry, so that they always agree · `table` all
rows · `resources` rows common to all resources · `namespaces`, `workloads`, `code`, `history`, `triggers` the views · `api_request` the
request as passed to views · `body` parses requests · `serialize` writes answers · `paging` · `errors` one shape for all errors · `openapi`
the document · `pages` small pages and metrics, `markdown` as HTML · `console` the console · `overview` its list over REST · `schedules`,
`schedule_words` cron schedules in words.

Decision: rows without a view are served by `asgi` and never reach Flask; they are only listed for the document.
"""

from sless.http.app import create_app

__all__ = ["create_app"]
