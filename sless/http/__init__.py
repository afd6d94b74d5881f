"""REST, OpenAPI, metrics and the plain pages, as one Flask application. Short answers only: calls and streams are `asgi`'s.

`operation` one row per path and method: the row registers the view *and* is the OpenAPI document, so they cannot drift · `table` all rows ·
`resources` the rows that all of them have · `namespaces`, `workloads`, `code`, `history`, `triggers`, `jobs` the views · `call` what a view
gets · `body` what comes in · `serialize` what goes out · `paging` · `errors` one shape for all of them · `openapi` · `pages`, `funcs` for
people.

Decision: rows whose view is None are served by `asgi` before Flask is asked; they are here for the document only.
"""

from sless.http.app import create_app

__all__ = ["create_app"]
