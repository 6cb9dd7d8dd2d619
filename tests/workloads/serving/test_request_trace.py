"""Reading traces of inference requests."""

import gzip
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from raises_input import mentions, raises_input

from netsim.errors import InputError
from netsim.workloads.serving.request_trace import read_request_trace

OURS = "arrival_s,prompt_tokens,output_tokens\n0,374,44\n0.5,396,109\n600,879,55\n"


def trace_of(folder: Path, content: str | bytes) -> Path:
    path = folder / "trace.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def columns(path: Path) -> list[list[int]]:
    trace = read_request_trace(path)
    return [one.tolist() for one in (trace.arrival_ps, trace.prompt_tokens, trace.output_tokens)]


EXPECTED = [[0, 5 * 10**11, 6 * 10**14], [374, 396, 879], [44, 109, 55]]


def test_traces_of_all_formats_are_read(tmp_path: Path) -> None:
    for content in [
        OURS,
        OURS.replace("\n", "\r\n"),
        b"\xef\xbb\xbf" + OURS.encode(),
        gzip.compress(OURS.encode(), mtime=0),
        "# made by hand\n\n" + OURS.replace("\n", "\n\n"),
        # Vidur, with an unused column
        "arrived_at,num_prefill_tokens,num_decode_tokens,session_id\n"
        "0.0,374,44,1\n0.5,396,109,2\n600.0,879,55,\n",
        # Azure
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 23:58:46.6805900,374,44\n"
        "2023-11-16 23:58:47.1805900,396,109\n2023-11-17 00:08:46.6805900,879,55\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00+00:00,374,44\n"
        "2024-05-10T01:00:00.5+01:00,396,109\n2024-05-10 00:10:00Z,879,55\n",
        # BurstGPT
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        '0,ChatGPT,374,44,418,"log, of a conversation"\n0.5,GPT-4,396,109,505,x\n'
        "600,GPT-4,879,55,934,x\n",
        # Splitwise's simulator
        "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,"
        "token_size\n0,2,0,0,1,374,44\n1,2,0,.5,1,396,109\n2,2,0,6e2,1,879,55\n",
        # Mooncake
        '{"timestamp": 0, "input_length": 374, "output_length": 44, "hash_ids": [46, 47]}\n'
        '{"timestamp": 500, "input_length": 396, "output_length": 109, "hash_ids": []}\n\n'
        '{"output_length": 55, "timestamp": 6e5, "input_length": 879}\n',
        "timestamp,input_length,output_length\n0,374,44\n500,396,109\n600000,879,55\n",
        "arrival_ms,prompt_tokens,output_tokens\n0,374,44\n500,396,109\n600000,879,55\n",
        "output_tokens , prompt_tokens , arrival_us\n44, 374, 0\n109, 396, 5e5\n55, 879, 6e8\n",
    ]:
        path = trace_of(tmp_path, content)
        assert columns(path) == EXPECTED
        assert read_request_trace(path).notes == ()


def test_unit_of_arrivals_is_asked_for_unless_a_name_or_a_format_tells_it(tmp_path: Path) -> None:
    path = trace_of(tmp_path, OURS.replace("arrival_s", "timestamp"))
    with raises_input("trace.csv:1", "timestamp", "unit", "trace_time_unit", "arrival_ms"):
        read_request_trace(path)
    for unit, scale in (("s", 1), ("ms", 10**3), ("us", 10**6)):
        times = read_request_trace(path, unit).arrival_ps
        assert times.tolist() == [0, 5 * 10**11 // scale, 6 * 10**14 // scale]
    assert len(read_request_trace(path, timed=False)) == 3
    with raises_input("arrival_s", "is in s, not in ms"):
        read_request_trace(trace_of(tmp_path, OURS), "ms")


def test_unsorted_rows_are_sorted_and_reported(tmp_path: Path) -> None:
    first, *rows = OURS.splitlines()
    path = trace_of(tmp_path, "\n".join([first, rows[2], rows[0], rows[1]]))
    assert columns(path) == EXPECTED
    trace = read_request_trace(path)
    assert trace.lines.tolist() == [3, 4, 2]
    assert mentions(trace.notes, "2", "trace.csv")


def test_arrival_times_are_exact_to_the_picosecond(tmp_path: Path) -> None:
    """A double could not represent this time to the picosecond."""
    path = trace_of(tmp_path, "arrival_s,prompt_tokens,output_tokens\n70000.123456789012,1,1\n")
    assert columns(path)[0] == [70_000_123_456_789_012]


PIECES = st.sampled_from(
    [b"\n", b"\r", b",", b'"', b"-", b"\0", b"\xff", b"0", b"nan", b"1e99", b"9" * 30, b"#", b" "]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(OURS)), st.integers(0, 9), PIECES), max_size=4))
def test_damaged_trace_is_read_or_rejected(damage: list[tuple[int, int, bytes]]) -> None:
    """A damaged file gives a valid, sorted table or errors of a line each."""
    content = OURS.encode()
    for at, gone, piece in damage:
        content = content[:at] + piece + content[at + gone :]
    with tempfile.TemporaryDirectory() as folder:
        path = trace_of(Path(folder), content)
        trace, message = None, ""
        try:
            trace = read_request_trace(path)
        except InputError as error:
            message = str(error)
    if trace is None:
        assert all(line.startswith(str(path)) for line in message.split("\n"))
        return
    assert len(trace) > 0
    assert (trace.arrival_ps >= 0).all()
    assert (trace.arrival_ps[1:] >= trace.arrival_ps[:-1]).all()
    assert (trace.prompt_tokens > 0).all()
    assert (trace.output_tokens > 0).all()
    assert trace.arrival_ps.dtype == trace.prompt_tokens.dtype == "int64"
