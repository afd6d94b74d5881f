import logging

from sless.app.lifecycle import run_steps


def test_a_failing_step_does_not_skip_the_others(caplog):
    done = []

    def broken() -> None:
        raise OSError("disk gone")

    with caplog.at_level(logging.ERROR):
        run_steps(lambda: done.append("loops"), broken, lambda: done.append("store"))
    assert done == ["loops", "store"]
    assert "broken failed" in caplog.text and "disk gone" in caplog.text
