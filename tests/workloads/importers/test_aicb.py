"""Reading SimAI workload files."""

from pathlib import Path

import pytest

from netsim.errors import InputError
from netsim.workloads.traffic.simai import Phase, SimaiRow, SimaiWorkload, read_simai

POLICY = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
HEADER = (
    f"{POLICY} model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: 4 "
    "checkpoints: 0 checkpoint_initiates: 0 pp_comm: 0"
)
LAYER = "layer0\t-1\t1000\tALLREDUCE\t4194304\t1000\tNONE\t0\t1000\tALLREDUCE\t8388608\t100"
MINIMAL = f"{HEADER}\n1\n{LAYER}"


def read(directory: Path, text: str | bytes) -> SimaiWorkload:
    path = directory / "w.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_simai(path)


def test_minimal_workload_is_read(tmp_path: Path) -> None:
    """The file has no final newline, like SimAI's own files."""
    work = read(tmp_path, MINIMAL)
    assert work.policy == POLICY
    assert work.header == {
        **dict.fromkeys(("ep", "pp", "vpp", "ga"), 1),
        "tp": 2,
        "all_gpus": 4,
        "pp_bytes": 0,
    }
    assert work.left_out == ()
    reduce = Phase(1000, "all_reduce", "", 4194304)
    weights = Phase(1000, "all_reduce", "", 8388608)
    row = SimaiRow(3, "layer0", reduce, Phase(1000, "", "", 0), weights, 100)
    assert work.rows == [row]
    assert work.micro_batches == [[row]]


def rows(*names: str, columns: str = "-1 1 NONE 0 1 NONE 0 1 NONE 0 100") -> str:
    return "\n".join([str(len(names)), *(f"{name} {columns}" for name in names)])


def test_micro_batches_are_separated_from_rows_of_the_step(tmp_path: Path) -> None:
    names = ("grad_gather", *("embedding_layer", "mlp_row") * 3, "cross_entropy1", "optimizer4")
    work = read(tmp_path, HEADER.replace("ga: 1", "ga: 3") + "\n" + rows(*names))
    assert [row.name for row in work.before] == ["grad_gather"]
    batches = [[row.name for row in batch] for batch in work.micro_batches]
    assert batches == [["embedding_layer", "mlp_row"]] * 3
    assert [row.name for row in work.behind] == ["cross_entropy1", "optimizer4"]
    assert [row.line for row in work.rows] == list(range(3, 12))
    plain = read(tmp_path, HEADER.replace("ga: 1", "ga: 2") + "\n" + rows("a", "b", "a", "b"))
    assert [len(batch) for batch in plain.micro_batches] == [2, 2]
    twice = read(tmp_path, HEADER + "\n" + rows("embedding_layer", "embedding_layer"))
    assert [len(batch) for batch in twice.micro_batches] == [2]  # as microAllReduce.txt has it


def test_headers_of_other_versions_are_read(tmp_path: Path) -> None:
    """Keys come in any order, lack a colon or are missing; sizes may end in ".0"."""
    text = "pp_comm 25165824.0 ga: 1 model_parallel_NPU_group: 8 checkpoints: 0"
    work = read(tmp_path, f"{POLICY} {text}\n{rows('a')}")
    assert (work.header["pp_bytes"], work.header["tp"], work.header["ep"]) == (25165824, 8, 1)
    assert work.left_out == ("ep", "pp", "vpp", "all_gpus")
    assert read(tmp_path, f"MICRO\n{rows('a')}").left_out == ()


def test_invalid_workloads_are_rejected(tmp_path: Path) -> None:
    for text, message in [
        ("", "w.txt: ends before its first row"),
        (MINIMAL.replace(POLICY, "HYBRID_DLRM"), "w.txt:1: policy HYBRID_DLRM is not supported"),
        (
            MINIMAL.replace(POLICY, "TRANSFORMER"),
            'w.txt:1: "TRANSFORMER" is not a policy (one of HYB',
        ),
        (MINIMAL.replace("vpp", "vvpp"), 'w.txt:1: "vvpp:" is not a key'),
        (MINIMAL.replace("pp_comm: 0", "pp_comm:"), 'w.txt:1: pp_comm: ""'),
        (MINIMAL.replace("ep: 1", "ep: 0"), 'w.txt:1: ep: "0"'),
        (MINIMAL.replace("ep: 1", "ep: one"), 'w.txt:1: ep: "one"'),
        (MINIMAL.replace("ep: 1", "ep: 1 ep: 2"), "w.txt:1: ep is 2"),
        (
            MINIMAL.replace("checkpoints: 0", "checkpoints: 2 0 3"),
            "w.txt:1: checkpoints: 2 layers with recomputation, whic",
        ),
        (MINIMAL.replace("\n1\n", "\n2\n"), "w.txt:2: 2 rows announced, 1 found"),
        (MINIMAL.replace("\n1\n", "\none\n"), 'w.txt:2: the number of rows: "one"'),
        (MINIMAL + " 5", "w.txt:3: has 13 columns, not 12"),
        (MINIMAL.replace("-1", "0"), 'w.txt:3: depends on "0", which is not supported'),
        (MINIMAL.replace("\t1000\tA", "\t-5\tA"), 'w.txt:3: ns: "-5"'),
        (MINIMAL.replace("1000\tA", "9" * 17 + "\tA"), 'w.txt:3: ns: "99999999999999999"'),
        (
            MINIMAL.replace("ALLREDUCE\t4", "ALLREDUCEALLTOALL_EP\t4"),
            'w.txt:3: "ALLREDUCEALLTOALL_EP" is not a supported collecti',
        ),
        (HEADER.replace("ga: 1", "ga: 2") + "\n" + rows("a", "b"), "are not 2 micro-batches ("),
        (b"\xff", "w.txt: is not UTF-8 text"),
    ]:
        with pytest.raises(InputError) as caught:
            read(tmp_path, text)
        assert message in str(caught.value)
