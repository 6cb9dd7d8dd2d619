"""`netsim trace --pcap`: the file is read by a reader in this test and, if installed, by tshark."""

import shutil
import struct
import subprocess
from collections import Counter

import pytest
from click.testing import CliRunner

from netsim.cli import app
from netsim.results import load_result
from netsim.tracing import trace_flow

EXPERIMENT = """
name = "small"
transport = "{transport}"
[topology]
kind = "fat_tree"
hosts_per_leaf = 3
leaves = 2
host_rate = "100Gbps"
[traffic]
kind = "flow_list"
file = "f.csv"
{more}
"""
FLOWS = "src,dst,size\n1,0,200KB\n2,0,200KB\n3,0,200KB\n"
MARKS = '[fabric]\necn = {kmin_bytes = "20KB", kmax_bytes = "80KB", pmax = 1.0}\n'


@pytest.fixture
def capture(tmp_path, monkeypatch):
    """Run an experiment in plain Python, trace it and return the captured packets and counts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")

    def run(*options, transport="roce", more=""):
        if not (tmp_path / transport).exists():
            (tmp_path / "f.csv").write_text(FLOWS)
            text = EXPERIMENT.format(transport=transport, more=more)
            (tmp_path / "small.toml").write_text(text)
            done = CliRunner().invoke(app, ["run", "small.toml", "--out", transport, "--quiet"])
            assert done.exit_code == 0, done.output
        arguments = ["trace", transport, "--pcap", "c.pcapng", "--quiet", *options]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        return read((tmp_path / "c.pcapng").read_bytes())

    return run


def options_of(data):
    found = {}
    while data:
        code, length = struct.unpack("<HH", data[:4])
        if code == 0:
            break
        found[code] = data[4 : 4 + length]
        data = data[4 + length + -length % 4 :]
    return found


def read(content):
    """Read a pcapng file: (interface, ns, frame, wire length, comment) per packet, and counts per
    interface."""
    interfaces, packets, counts = [], [], {}
    at = 0
    while at < len(content):
        kind, length = struct.unpack("<II", content[at : at + 8])
        body = content[at + 8 : at + length - 4]
        assert length % 4 == 0
        assert content[at + length - 4 : at + length] == struct.pack("<I", length)
        if at == 0:
            assert (kind, body[:4]) == (0x0A0D0D0A, b"\x4d\x3c\x2b\x1a")
        elif kind == 1:
            assert struct.unpack("<HHI", body[:8]) == (1, 0, 0)  # Ethernet
            given = options_of(body[8:])
            assert (given[9], struct.unpack("<Q", given[8])) == (b"\x09", (100 * 10**9,))
            interfaces.append(given[2].decode())
        elif kind == 6:
            number, high, low, kept, size = struct.unpack("<IIIII", body[:20])
            given = options_of(body[20 + kept + -kept % 4 :])
            time_ns, data = high << 32 | low, body[20 : 20 + kept]
            packets.append((interfaces[number], time_ns, data, size, given[1].decode()))
        elif kind == 5:
            given = options_of(body[12:])
            name = interfaces[struct.unpack("<I", body[:4])[0]]
            counts[name] = [struct.unpack("<Q", given[code])[0] for code in (4, 5)]
        at += length
    return packets, counts


def checksum(head):
    total = sum(struct.unpack(">10H", head))
    return (total & 0xFFFF) + (total >> 16)


def test_flow_capture_matches_its_trace(capture):
    packets, counts = capture("--flow", "2")
    trace = trace_flow(load_result("roce"), 2)
    moves = trace.events.filter(trace.events["event"].is_in(["send", "forward"]))
    expected = [
        (f"{row['node_name']} -> {row['to_name']}", row["time_ps"] // 1000, row["size_bytes"])
        for row in moves.iter_rows(named=True)
    ]
    found = [(link, time, max(size, 64)) for link, time, _, size, _ in packets]
    assert sorted(found) == sorted(expected)
    assert {name: one for name, (one, _) in counts.items()} == Counter(one[0] for one in found)
    codes = Counter()
    for _, _, data, size, comment in packets:
        assert len(data) == size
        assert data[12:14] == b"\x08\x00"
        assert checksum(data[14:34]) == 0xFFFF
        source, port, length = struct.unpack(">HHH", data[34:40])
        assert (port, source >= 0xC000) == (4791, True)
        assert struct.unpack(">H", data[16:18])[0] == length + 20
        opcode, _, key, pair, number = struct.unpack(">BBHII", data[42:54])
        assert (key, pair) == (0xFFFF, 4)
        assert f"flow 2 {'DATA' if opcode < 0x11 else 'ACK'} {number & 0xFFFFFF}," in comment
        codes[opcode] += 1
    hops = 2 if codes[6] == 2 else 4
    assert codes == {6: hops, 7: hops * (trace.n_packets - 2), 8: hops, 0x11: codes[0x11]}


def test_link_capture_contains_pauses_cnps_and_marks(capture):
    frames, _ = capture("--at", "leaf0 -> h*")
    assert {link for link, *_ in frames} == {f"leaf0 -> h{host}" for host in range(3)}
    pauses = [data for _, _, data, _, comment in frames if comment.startswith("PFC")]
    assert pauses
    for data in pauses:
        assert (data[:6], data[12:16]) == (bytes.fromhex("0180c2000001"), b"\x88\x08\x01\x01")
        assert struct.unpack(">H8H", data[16:34])[1] in (0, 0xFFFF)
    both, _ = capture("--at", "leaf0 - h1", transport="dcqcn", more=MARKS)
    notified = [data for _, _, data, _, comment in both if " CNP " in comment]
    assert notified
    assert all(data[42] == 0x81 and data[46] & 0x40 for data in notified)
    to_host, _ = capture("--at", "leaf0 -> h0", transport="dcqcn")
    marked = [(data, comment) for _, _, data, _, comment in to_host if data[15] & 3 == 3]
    assert marked
    assert any("marked here" in comment for _, comment in marked)


def test_other_transports_are_captured_as_udp_text(capture):
    packets, _ = capture("--at", "leaf0 -> h0", transport="ndp")
    trimmed = [(data, comment) for _, _, data, _, comment in packets if "trimmed here" in comment]
    assert trimmed
    data, comment = trimmed[0]
    assert struct.unpack(">H", data[36:38])[0] == 47910
    flow, number = comment.split()[1], comment.split()[3].strip(",")
    assert f"netsim ndp TRIMMED flow={flow} seq={number}".encode() in data
    whole = [(len(data), size) for _, _, data, size, comment in packets if " DATA " in comment]
    assert max(size for _, size in whole) == 4160
    assert max(kept for kept, _ in whole) < 128


def test_capture_counts_drops(capture):
    more = '[fabric]\nqueue_bytes = "20KB"\n'
    packets, counts = capture("--at", "leaf0 -> h0", transport="dctcp", more=more)
    links = load_result("dctcp").links
    dropped = links.filter(links["from_name"] == "leaf0", links["to_name"] == "h0")["drops"].sum()
    assert counts["leaf0 -> h0"] == [len(packets), dropped]
    assert dropped > 0
    assert any("dropped since the last packet" in comment for *_, comment in packets)


def test_options_select_the_captured_packets(capture):
    everything, _ = capture("--at", "leaf0")
    some, _ = capture("--at", "leaf0", "--limit", "7", "--from", "4us")
    assert len(some) == 7
    assert [one[:2] for one in some] == [one[:2] for one in everything if one[1] >= 4000][:7]
    early, _ = capture("--at", "leaf0", "--to", "3us")
    assert early == everything[: len(early)]
    assert early[-1][1] <= 3000 < everything[len(early) + 1][1]
    only, _ = capture("--at", "leaf0", "--flow", "1")
    assert {comment.split(",")[0].split()[1] for *_, comment in only} == {"1"}
    for wrong, message in (
        ((), "--flow N"),
        (("--at", "leaf9"), "leaf9"),
        (("--at", "leaf0", "--seq", "1"), "mutually exclusive"),
        (("--flow", "99"), "no flow 99"),
    ):
        done = CliRunner().invoke(app, ["trace", "roce", "--pcap", "c.pcapng", *wrong])
        assert (done.exit_code, message in done.stderr) == (2, True), done.output


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_decodes_the_capture(capture):
    """Without settings it finds RoCEv2, CNP, PFC and UDP, and nothing malformed."""

    def protocols():
        command = ["tshark", "-r", "c.pcapng", "-T", "fields", "-e", "_ws.col.Protocol"]
        command += ["-e", "infiniband.bth.opcode", "-e", "_ws.malformed"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return {tuple(line.split("\t")) for line in done.stdout.splitlines()}

    capture("--at", "leaf0 -> h1", "--limit", "400", transport="dcqcn", more=MARKS)
    assert {one[1] for one in protocols()} == {"17", "129"}
    capture("--at", "leaf0", transport="roce")
    found = protocols()
    assert {one[0] for one in found} == {"RRoCE", "MAC CTRL"}
    assert {one[1] for one in found} == {"6", "7", "8", "17", ""}
    assert {one[2] for one in found} == {""}
    capture("--at", "leaf0 -> h0", transport="ndp")
    assert {one[0] for one in protocols()} == {"UDP"}
