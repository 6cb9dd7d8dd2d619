"""Declarations of a transport: state, handlers, parameters."""

from __future__ import annotations

import pytest
from lint_case import SOUND, check
from raises_input import mentions

from netsim.errors import InputError


@pytest.mark.parametrize(
    ("before", "after", "key", "message"),
    [
        ("def build_packet(", "def _build_packet(", None, "build_packet"),
        ("def ready(", "def _ready(", None, "function"),
        ("_packet(env, now, tx, pkt)", "_packet(env, tx, pkt)", None, "3"),
        ("_packet(env, now, tx, pkt)", "_packet(*all)", None, "function"),
        ("def build_packet(", "async def build_packet(", None, "function"),
        ("def setup(", "build_packet = 3\n\ndef setup(", None, None),
        ("def setup(", "rank = 3\n\ndef setup(", "rank", "function"),
        ('RX_STATE = ("n",)', 'RX_STATE = ("n")', "RX_STATE", "n"),
        ('RX_STATE = ("n",)', "RX_STATE = 3", "RX_STATE", "3"),
        ('RX_STATE = ("n",)', 'RX_STATE = ("n", "n")', "RX_STATE", "field"),
        ('RX_STATE = ("n",)', 'RX_STATE = ("n", "peer")', "RX_STATE", ""),
        ('RX_STATE = ("n",)', 'RX_STATE = ("n", "class")', "RX_STATE", "class"),
        ('RX_STATE = ("n",)', 'RX_STATE = ("_at",)', "RX_STATE", "_at"),
        ('RX_STATE = ("n",)', 'RX_STATE = (("n", True),)', "RX_STATE", "n"),
        ('RX_STATE = ("n",)', 'RX_STATE = (("n", 10**12),)', "RX_STATE", "8000000"),
        ('("notes", 4)', '("notes", 400)', "PACKET_FIELDS", "3208"),
        ("TX_TIMERS, RTO = 1, 0", "TX_TIMERS, RTO = True, 0", "TX_TIMERS", ""),
        ("TX_TIMERS, RTO = 1, 0", "TX_TIMERS, RTO = 99, 0", "TX_TIMERS", "99"),
        ("TX_TIMERS, RTO = 1, 0", "TX_BITMAPS, RTO = 'x', 0", "TX_BITMAPS", "x"),
    ],
)  # fmt: skip
def test_invalid_state_and_handlers_are_reported(tmp_path, before, after, key, message):
    assert before in SOUND
    errors = check(tmp_path, SOUND.replace(before, after, 1))
    if message is None:
        assert errors == []
        return
    (error,) = errors
    assert mentions(error.message, message)
    assert error.key == key
    assert str(error.file).partition(":")[0] == str(tmp_path / "mine.py")


def test_invalid_constants_of_the_module_are_rejected(tmp_path):
    for declared, key, message in [
        ("PRESETS = 3", "PRESETS", "3"),
        ("PRESETS = {3: {}}", "PRESETS", "3"),
        ('PRESETS = {"a": 3}', 'PRESETS["a"]', "3"),
        ('PRESETS = {"a": {3: 3}}', 'PRESETS["a"]', "3"),
        ('PRESETS = {"a:b": {}}', "PRESETS", "a:b"),
        ('PRESETS = {"a": {"window": "x"}}', 'PRESETS["a"].window', "x"),
        ("PRESET_FABRIC = 3", "PRESET_FABRIC", "3"),
        ('PRESET_FABRIC = {"a": 3}', 'PRESET_FABRIC["a"]', "3"),
        ('PRESET_FABRIC = {"a": {}}', 'PRESET_FABRIC["a"]', ""),
        ("FABRIC = 3", "FABRIC", "3"),
        ('FABRIC = "drop_tail"', "FABRIC", "drop_tail"),
        ("FABRIC = {3: 3}", "FABRIC", "3"),
        ('CONTROL_PER_DATA = "x"', "CONTROL_PER_DATA", "x"),
        ('CONTROL_PER_DATA = float("nan")', "CONTROL_PER_DATA", "packet"),
        ("CONTROL_PER_DATA = -1", "CONTROL_PER_DATA", "-1"),
        ("CONTROL_PER_DATA = None", "CONTROL_PER_DATA", "packet"),
        ('RELIABLE = "no"', "RELIABLE", "no"),
        ("CLOSED_FORM = 3", "CLOSED_FORM", "3"),
        ('TRACE = "acked"', "TRACE", "acked"),
        ("TRACE = (3,)", "TRACE", "3"),
        ("PARAMS = 3", "PARAMS", "3"),
        ("PARAMS = None", "PARAMS", ""),
        ("PARAMS = [3]", "PARAMS[0]", ""),
    ]:
        with pytest.raises(InputError) as caught:
            check(tmp_path, f"{SOUND}\n\n{declared}\n")
        assert mentions(caught.value.message, message)
        assert caught.value.key == key
        assert caught.value.file == str(tmp_path / "mine.py")


def test_invalid_params_are_rejected(tmp_path):
    for arguments, message in [
        ('3, "count", 1, "doc"', "3"),
        ('"my-window", "count", 1, "doc"', "my-window"),
        ('"lambda", "count", 1, "doc"', "lambda"),
        ('"a", ["count"], 1, "doc"', "count"),
        ('"a", "count", 1, None', ""),
        ('"a", "choice", "x", "doc", choices="xyz"', "xyz"),
    ]:
        with pytest.raises(InputError) as caught:
            check(tmp_path, f"{SOUND}\n\nPARAMS = [Param({arguments})]\n")
        assert mentions(caught.value.message, message)


def test_fields_may_be_named_like_attributes_of_records(tmp_path):
    """In plain Python a record is an object, which once had attributes `at` and `views`."""
    from engine_runs import DROP_TAIL, build, fat_tree, flow_table, run

    source = SOUND.replace('"next_seq"', '"next_seq", "at", "views"')
    source = source.replace("pass  # build_packet\n", "tx.at += 2\n    tx.views -= 1\n")
    assert check(tmp_path, source) == []
    flows = flow_table([(0, 4, 3 * 4096, 0)])
    path = str(tmp_path / "mine.py")
    engine = run(build(fat_tree(4, 2, "100Gbps"), flows, path, DROP_TAIL, jit=False))
    tx = engine.state.hosts.tx
    assert (int(tx["at"][0]), int(tx["views"][0])) == (6, -3)
