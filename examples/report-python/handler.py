"""Requests the pages in its event and reports on them; fails if one does not answer, so that the firing is recorded as failed."""

import json
import time
import urllib.error
import urllib.request


def handle(event, context):
    urls = event.get("urls") if isinstance(event, dict) else None
    if not isinstance(urls, list) or not urls:
        raise ValueError(f'expected an event such as {{"urls": ["https://example.org"]}}, found {json.dumps(event)}')
    report = [asked(url, event.get("within_sec", 5)) for url in urls]
    for line in report:
        print(line["url"], line["status"], f"{line['ms']} ms")
    down = [line["url"] for line in report if line["status"] != 200]
    if down:
        raise RuntimeError("no 200 from " + ", ".join(down))
    return {"by": context.trigger, "report": report}


def asked(url, within_sec):
    began = time.monotonic()
    try:
        with urllib.request.urlopen(url, timeout=within_sec) as answer:
            status = answer.status
    except urllib.error.HTTPError as error:
        with error:
            status = error.code
    except (OSError, ValueError) as error:
        status = str(error)
    return {"url": url, "status": status, "ms": round((time.monotonic() - began) * 1000)}
