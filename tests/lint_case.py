"""A correct transport to insert errors into, and the errors that lint finds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from raises_input import mentions

from netsim.engine.compiling import lint
from netsim.errors import InputError
from netsim.plugins import registry
from netsim.plugins.params import resolve_params

SOUND = '''
"""A window of packets, each acknowledged."""

from netsim.blocks import selective
from netsim.plugins.params import Param
from netsim.transport import ACK, BLOCKED, armed, deliver, finish, send, set_timer

PARAMS = [Param("window", "count", 8, "packets"), Param("rto", "time", "1ms", "timeout")]
TX_STATE = ("next_seq", "acked", ("rate", float), ("sent", 4))
RX_STATE = ("n",)
HOST_STATE = ("credit", ("active", 8))
PACKET_FIELDS = ("stamp", ("notes", 4))
TX_TIMERS, RTO = 1, 0


def setup(env, tx, rx):
    pass  # setup


def ready(env, now, tx):
    if tx.next_seq < tx.n_packets and tx.next_seq - tx.acked < env.par.window:
        return now
    return BLOCKED


def build_packet(env, now, tx, pkt):
    pkt.seq = tx.next_seq
    tx.next_seq += 1
    pass  # build_packet


def on_data(env, now, rx, pkt):
    deliver(env, now, rx, int(pkt.size_bytes) - env.par.header_bytes)
    ack = send(env, rx, ACK, int(pkt.seq), 0, 0)
    pass  # on_data


def on_control(env, now, tx, pkt):
    tx.acked += 1
    if tx.acked == tx.n_packets:
        finish(env, now, tx)
    pass  # on_control


def on_forward(now, pkt, port, queue):
    pass  # on_forward


def helper(env, tx, other):
    pass  # helper


def flow(env, i):
    return env.tx[i]


def on_timer(env, now, tx, k):
    helper(env, tx, env.host)
'''


def check(folder: Path, source: str, kind: str = "transport") -> list[InputError]:
    """Return the lint errors of a plugin with this source."""
    path = folder / "mine.py"
    path.write_text(source)
    plugin = registry.find(kind, str(path))
    params = resolve_params(plugin.params, plugin.presets, {}, None, file=None, key="")
    try:
        lint.check(plugin, params)
    except InputError as error:
        return list(error.errors)
    return []


def line_of(source: str, text: str) -> int:
    lines = [n for n, line in enumerate(source.splitlines(), start=1) if text in line]
    assert len(lines) == 1, text
    return lines[0]


def check_rows(
    folder: Path, source: str, kind: str, rows: Iterable[tuple[str, str, str | tuple[str, ...]]]
) -> None:
    """Check that each statement, put at its mark, is the one error of the plugin, at its line."""
    for where, statement, expected in rows:
        text = source.replace(f"pass  # {where}\n", f"{statement}  # {where}\n")
        errors = check(folder, text, kind)
        assert errors, statement
        assert mentions(errors[0].message, expected), (statement, errors[0])
        line = line_of(text, f"# {where}")
        assert {error.file for error in errors} == {f"{folder / 'mine.py'}:{line}"}
