from sless.domain.durations import backoff_sec


def test_backoff_doubles_up_to_the_maximum():
    assert [backoff_sec(count, first_sec=2, max_sec=300) for count in (1, 2, 5, 8, 9, 5000)] == [2, 4, 32, 256, 300, 300]
    assert [backoff_sec(count, first_sec=0.5, max_sec=15) for count in (0, 1, 2, 5, 6)] == [0.5, 0.5, 1, 8, 15]
