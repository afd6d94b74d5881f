"""Parsing of wrk's reports, including units."""

import pytest

from tests.bench.load import Pairs, Report, report_of

REPORT = """Running 2s test @ http://127.0.0.1:1/
  1 threads and 256 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   130.66ms  210.77ms   1.83s    94.33%
    Req/Sec     2.35k     1.20k    4.31k    57.89%
  Latency Distribution
     50%  683.00us
     75%  121.96ms
     90%  193.03ms
     99%    1.27s\x20
  4539 requests in 2.11s, 0.87MB read
  Socket errors: connect 1, read 2, write 3, timeout 4
  Non-2xx or 3xx responses: 7
Requests/sec:   2151.18
Transfer/sec:    422.23KB
"""


def test_a_report():
    assert report_of(REPORT) == Report(requests_per_sec=2151.18, p50_ms=0.683, p99_ms=1270.0, failed=17)


def test_an_invalid_report_is_an_error():
    with pytest.raises(ValueError, match="expected a report of wrk"):
        report_of("unable to connect")


def test_ratio_and_latency_come_from_the_median_pair():
    def report(rate: float, p50_ms: float = 1.0) -> Report:
        return Report(requests_per_sec=rate, p50_ms=p50_ms, p99_ms=2.0, failed=1)

    pairs = Pairs(first=(report(50), report(10, 1.5), report(90)), second=(report(100), report(100), report(100)))
    assert pairs.ratio == 0.5
    assert pairs.added_ms == 0.0
    assert pairs.failed == 6
