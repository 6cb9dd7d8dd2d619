"""The tuner's choice of worker count and length of engine calls."""

from netsim.running.drive import Tuner

HOPS = 10_000


def drive(
    tuner: Tuner, speed: dict[int, float], seconds: float, hops: int = HOPS
) -> dict[int, float]:
    """Return the seconds with each number of workers, given their `speed` (hops/s) and windows."""
    used = dict.fromkeys(speed, 0.0)
    while sum(used.values()) < seconds:
        workers, call_s = tuner.next_call()
        window_s = hops / speed[workers]
        windows = 1 + int(call_s / window_s)
        tuner.learn(workers, windows, windows * hops, windows * window_s)
        used[workers] += windows * window_s
    return used


def test_tuner_prefers_the_faster_worker_count() -> None:
    for speed, best in (({1: 1e7, 2: 1.9e7}, 2), ({1: 1e7, 2: 1e6}, 1)):
        used = drive(Tuner(2), speed, 60)
        assert min(used.values()) > 0
        assert used[best] > 0.98 * sum(used.values())


def test_tuner_adapts_to_changed_speeds() -> None:
    tuner = Tuner(4)
    drive(tuner, {1: 1e7, 4: 3e7}, 30)
    used = drive(tuner, {1: 1e7, 4: 1e6}, 30)
    assert used[1] > 0.8 * sum(used.values())


def test_tuner_keeps_trials_short_on_a_busy_machine() -> None:
    """Two workers wait 3 ms for each other in each window, yet trials cost only a few percent."""
    used = drive(Tuner(2), {1: 1e7, 2: HOPS / 0.003}, 30)
    assert used[2] < 0.03 * sum(used.values())


def test_long_windows_use_all_workers_without_trials() -> None:
    tuner = Tuner(2)
    drive(tuner, {1: 1e7, 2: 1e7}, 1, 1_000_000)
    assert drive(tuner, {1: 1e7, 2: 1e7}, 30, 1_000_000)[1] == 0
