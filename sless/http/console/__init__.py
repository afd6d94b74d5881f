"""The console: pages for browsers at `/funcs` and `/funcs/{ns}`.

`pages` the table of pages, and their registration · `files` scripts and styles · `request` the request as passed to views, and rendering ·
`formats` numbers and times · `session` the cookie · `signing` in and out · `texts` the languages · `listing` the list, also as text ·
`workload` a function, service or job · `triggers` · `guide` guide and examples · `operators` · `older_addresses` · one module per further
group of pages.

A page consists of a row in `PAGES` of its module, a template in `templates/`, texts in its group of `languages/en.json` and
`languages/ru.json`, and, if it updates itself, a script `static/console/pages/{module}.js`. `static/console/README.md` describes the
scripts.

Decisions:
- The server renders each page completely; scripts then keep it current and send changes. They use the REST interface, so everything that
  the console does can be done with curl.
- The cookie contains the token. It is HttpOnly, SameSite=Lax and limited to /funcs, so functions below /fn on the same host never receive
  it. The pages contain the key of the session; `asgi.console` accepts requests for `/funcs/-/v1/…` with cookie and key. If functions share
  the host (on a laptop), their scripts cannot read the key: pages are only sent for top-level navigations (Sec-Fetch-Dest), cannot be
  framed, and have a separate browsing context (COOP).
- The Content-Security-Policy has no 'unsafe-inline': no style attributes, no inline scripts. Data for scripts is a JSON block, which is not
  executed.
- Files of the console are served below a path with the hash of all of them, so that browsers may keep them forever and never mix versions.
- The list's page has its first rows only and the stream brings the others, so the first paint does not depend on the number of functions.
"""

from sless.http.console.pages import register

__all__ = ["register"]
