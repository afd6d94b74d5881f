"""The console: pages for browsers at `/funcs` and `/funcs/{ns}`.

`pages` the table of pages and what registers them · `request` what a view gets, and how it renders · `session` the cookie · `signing` in
and out · `texts` the languages · `listing` the list, also as text · `workload` a function, service or job ·
`triggers` · `guide` guide and examples · `operators` · `older_addresses` · one module per further group of pages.

How a page is made: a row in `PAGES` of its module, a template in `templates/`, texts in its group of `languages/en.json` and
`languages/ru.json`, and, if it is alive, a script `static/console/pages/{module}.js`. `static/console/README.md` describes the
browser's half.

Decisions:
- The server renders each page completely; scripts then keep it current and send changes. They use the REST interface, so nothing can be
  done here that cannot be done with curl.
- The cookie holds the token. It is HttpOnly, SameSite=Lax and limited to /funcs, so functions below /fn on the same host never receive it.
  The pages contain the key of the session; `asgi.console` accepts requests for `/funcs/-/v1/…` that carry cookie and key. Where functions
  share the host (a laptop), their scripts cannot get at the key: pages are only given to top-level navigations (Sec-Fetch-Dest), are not
  framed, and open in a browsing context of their own (COOP).
- The Content-Security-Policy has no 'unsafe-inline': no style attributes, no inline scripts. Data for scripts is a JSON block, which is not
  executed.
- Files of the console are served below a path with the hash of all of them, so that browsers may keep them forever and never mix versions.
"""

from sless.http.console.pages import register

__all__ = ["register"]
