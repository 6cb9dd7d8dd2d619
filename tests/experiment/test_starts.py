"""Keys of all traffic patterns that move starts."""

import numpy as np
from experiment_text import load
from raises_input import raises_input

from netsim.experiment.scenario import prepare

TEXT = """
seed = 1
transport = "datagram"
[topology]
kind = "fat_tree"
radix = 4
[traffic]
kind = {kind}
"""
INCAST = '"incast"\nfan_in = 7\nsize = "20KB"\n'
JITTER_PS = 50_000


def starts(tmp_path, keys="", kind=INCAST):
    (point,) = load(tmp_path, TEXT.format(kind=kind + keys)).points()
    return prepare(point).flows.start_ps


def test_flows_start_later_by_a_draw_of_their_own(tmp_path):
    assert (starts(tmp_path) == 0).all()
    assert (starts(tmp_path, 'start = "1us"') == 1_000_000).all()
    drawn = starts(tmp_path, 'start = "1us"\nstart_jitter = "50ns"') - 1_000_000
    assert len(set(drawn.tolist())) > 4
    assert drawn.min() >= 0
    assert drawn.max() < JITTER_PS
    again = starts(tmp_path, 'start_jitter = "50ns"')
    assert np.array_equal(again, drawn)


def test_flows_that_wait_for_others_keep_their_delay(tmp_path):
    one_by_one = '"all_to_all"\nsize = "20KB"\none_by_one = true\n'
    drawn = starts(tmp_path, 'start_jitter = "50ns"', one_by_one)
    assert 0 < np.count_nonzero(drawn) <= 8


def test_traffic_of_tasks_refuses_a_jitter(tmp_path):
    ring = '"collective"\nwhat = "all_reduce"\nsize = "64KB"\n'
    with raises_input("start_jitter", key="traffic.start_jitter"):
        starts(tmp_path, 'start_jitter = "50ns"', ring)
