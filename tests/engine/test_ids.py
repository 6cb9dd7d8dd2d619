"""Confused indices and units in a kernel are type errors in mypy; at run time all are int."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from netsim.engine.kernels import fields as ids
from netsim.engine.kernels.fields import HostRecord, PacketRecord, PortRecord, QueueRecord, TxRecord
from netsim.engine.kernels.layout import PACKET, PORT, QUEUE, fields_of, padded_record_of, record_of

ROOT = Path(__file__).parents[2]

KERNELS = """\
from netsim.engine.kernels.fields import HostRecord, PacketRecord, TxRecord
from netsim.engine.kernels.fields import *
from netsim.engine.kernels.layout import (INF, HostState, Net, LinkState)
from netsim.engine.kernels.layout import (ports_of, queue_of, ring_slot)
from netsim.engine.kernels.links import brought, renew_link
from netsim.engine.kernels.links import next_slot
from netsim.engine.kernels.tasks import arm
from netsim.model.arithmetic import send_time


def right(net: Net, links: LinkState, node: NodeId, out: LocalPort, now: Ps) -> Ps:
    first = net.first_port[node]
    p = first + out
    port = links.ports[p]
    renew_link(links, port, p, now)
    pkt = links.pool[next_slot(links, 0, port)]
    pkt.flow = FlowId(3)
    links.queues[queue_of(p, int(pkt.prio))].bytes += Bytes(pkt.size_bytes)
    for q in ports_of(net, net.port_node[net.port_peer[p]]):
        out = q - first
    return min(now + send_time(Bytes(pkt.size_bytes), port.ps_per_byte_q20), INF)


def ports(net: Net, links: LinkState, node: NodeId, p: GlobalPort, out: LocalPort) -> None:
    links.ports[out]  # call-overload
    links.ports[int(p)]  # call-overload
    links.ports[node]  # call-overload
    links.readers[out + 1]  # call-overload
    links.queues[p]  # call-overload
    queue_of(out, 0)  # arg-type
    renew_link(links, links.ports[p], out, Ps(0))  # arg-type
    net.first_port[node] + p  # operator
    p + 1  # operator
    p * 2  # operator
    links.ports[p].tx_origin = p  # assignment
    net.port_peer[p] = out  # assignment


def places(links: LinkState, hosts: HostState, slot: Slot, flow: FlowId, now: Ps,
           host: HostRecord) -> None:
    host_port = hosts.host_ports[host.port]
    links.pool[now]  # call-overload
    links.pool[flow]  # call-overload
    hosts.rx[host.host]  # call-overload
    hosts.nics[flow]  # call-overload
    ring_slot(host.heap_off, 63, 0)  # arg-type
    arm(hosts.timers, hosts.heap, host, slot, now)  # arg-type
    arm(hosts.timers, hosts.heap, host, hosts.tx[flow].first_timer, slot)  # arg-type
    hosts.nics[host.host]  # call-overload
    host_port.ready_head = host.host  # assignment
    host_port.ctrl_off = host_port.ctrl_mask  # assignment


def quantities(links: LinkState, p: GlobalPort, pkt: PacketRecord, tx: TxRecord, now: Ps) -> None:
    brought(links, p, now, now, now)  # arg-type
    brought(links, p, Bytes(pkt.size_bytes), now, tx.size_bytes)  # arg-type
    links.ports[p].free_at = tx.size_bytes  # assignment
    links.ports[p].free_at = send_time(64, 8)  # assignment
    links.ports[p].tx_bytes = pkt.size_bytes  # assignment
    pkt.size_bytes + 1  # operator
    pkt.flow == tx.flow  # comparison-overlap
    links.pool[pkt.seq]  # call-overload
    links.ports[p].taill  # attr-defined
    tx.deadline  # attr-defined
"""
"""Example kernels; each wrong line has the code of mypy's error as a comment."""


@pytest.mark.slow
def test_mypy_distinguishes_indices_and_units(tmp_path):
    pytest.importorskip("mypy")
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS, "utf-8")
    options = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(tmp_path)]
    check = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--follow-imports", "silent", str(path)],
        env={"MYPYPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"kernels\.py:(\d+): error: .*\[([\w-]+)\]", check.stdout)
    lines = enumerate(KERNELS.splitlines(), start=1)
    wrong = [(str(i), line.partition("  # ")[2]) for i, line in lines if "  # " in line]
    assert found == wrong, check.stdout + check.stderr


def test_all_id_types_are_int_at_run_time():
    kinds = "LocalPort GlobalPort QueueId Slot TimerSlot FlowId NodeId HostId Ps Bytes"
    for kind in kinds.split():
        assert getattr(ids, kind) is int
    assert ids.span is range


def test_record_layout_follows_its_class():
    assert PACKET.itemsize == 32
    assert PORT.itemsize <= QUEUE.itemsize == 128  # two cache lines
    assert padded_record_of(PortRecord).itemsize == 128
    assert padded_record_of(QueueRecord, "own").itemsize == 192
    narrow = {name: PACKET[name].str for name in ("time", "aux", "size_bytes", "prio")}
    assert narrow == {"time": "<i8", "aux": "<i4", "size_bytes": "<u2", "prio": "|u1"}
    assert fields_of(TxRecord)[:2] == ("flow", "transport")  # common fields come first
    assert {PORT[name] for name in PORT.names} == {np.dtype(np.int64)}
    assert fields_of(HostRecord)[0] == "host"
    own = record_of(PacketRecord, "stamp", ("share", float), ("notes", 3), ("count", int))
    assert own.names[: len(PACKET.names)] == PACKET.names
    assert [own[name].base.str for name in own.names[-4:]] == ["<i8", "<f8", "<i8", "<i8"]
    assert own["notes"].shape == (3,)
