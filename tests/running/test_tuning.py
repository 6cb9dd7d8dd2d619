"""The choice of workers and of the length of the engine's calls."""

from __future__ import annotations

from netsim.running.drive import CHUNK_S, Tuner


def drive(tuner: Tuner, speed: dict[int, float], hops_per_window: int, calls: int) -> list[int]:
    """Workers of each call on a machine with these speeds (packet-hops/s by workers)."""
    used = []
    for _ in range(calls):
        workers, windows = tuner.next_call()
        hops = windows * hops_per_window
        tuner.learn(workers, windows, hops, hops / speed[workers])
        used.append(workers)
    return used


def test_the_faster_number_of_workers_does_most_calls() -> None:
    for speed, best in (({1: 1e7, 2: 1.9e7}, 2), ({1: 1e7, 2: 1e6}, 1)):
        used = drive(Tuner(2), speed, 10_000, 200)
        assert used.count(best) > 0.8 * len(used)
        assert set(used) == {1, 2}


def test_it_follows_a_machine_that_changes() -> None:
    tuner = Tuner(4)
    drive(tuner, {1: 1e7, 4: 3e7}, 10_000, 100)
    assert drive(tuner, {1: 1e7, 4: 1e6}, 10_000, 100)[-10:].count(1) >= 9


def test_a_busy_machine_is_not_made_to_wait_for_itself() -> None:
    """Where workers wait 40 ms for each other after each window, one of them does it all."""
    tuner, hops, seconds = Tuner(2), 0, 0.0
    for _ in range(300):
        workers, windows = tuner.next_call()
        took = windows * (100 / 1e6 if workers == 1 else 0.04 + 100 / 2e6)
        tuner.learn(workers, windows, 100 * windows, took)
        hops, seconds = hops + 100 * windows, seconds + took
    assert hops / seconds > 0.8e6


def test_long_windows_are_shared_without_trials() -> None:
    assert set(drive(Tuner(2), {1: 1e7, 2: 1e6}, 1_000_000, 50)[2:]) == {2}


def test_one_thread_is_never_asked_for_more() -> None:
    assert set(drive(Tuner(1), {1: 1e7}, 10_000, 50)) == {1}


def test_calls_take_about_the_time_that_they_should() -> None:
    tuner = Tuner(1)
    drive(tuner, {1: 1e7}, 10_000, 50)
    seconds = tuner.windows * 10_000 / 1e7
    assert CHUNK_S / 2 <= seconds <= 2 * CHUNK_S
