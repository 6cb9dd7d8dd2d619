"""Fair completion times: reported for flows on single paths only."""

from pathlib import Path

import pytest
from experiment_text import load, text

from netsim.cli.tables import result_table, sweep_table
from netsim.results.write import sweep_row
from netsim.running.point import simulate

N_BYTES = 40 * 4096
INCAST = f'kind = "incast"\nfan_in = 3\nsize = "{N_BYTES}B"'


pytestmark = pytest.mark.usefixtures("plain_python")


def figures(tmp_path: Path, transport: str, traffic: str, *overrides: str) -> dict[str, object]:
    content = text(top=f'transport = "{transport}"', traffic=traffic)
    (point,) = load(tmp_path, content, *overrides).points()
    summary = simulate(point).summary
    row = sweep_row(point, {**summary, "hash": "", "stop_reason": "finished"})
    return {"ideal": summary["ideal_max_ps"], "fair": summary.get("fair_ps"), "row": row}


def test_three_flows_on_a_link_have_tripled_fair_time(tmp_path):
    found = figures(tmp_path, "roce", INCAST)
    wire_ps = 40 * 4160 * 10  # at 800 Gbps
    fair = found["fair"]
    assert fair["max"] == pytest.approx(found["ideal"] + 2 * wire_ps)
    row = found["row"]
    assert row["fair_max_ps"] == fair["max"]
    assert "fair max" in str([column.name for column in sweep_table([row], []).columns])
    assert "fair" in str(list(result_table(row, {}).columns[0].cells))
    assert figures(tmp_path, "ideal", INCAST, "fabric.routing=ecmp")["fair"] == fair
    assert figures(tmp_path, "ideal", INCAST)["fair"] is None  # sprayed


def test_fair_time_needs_single_paths_and_common_starts(tmp_path):
    for transport, traffic, overrides in [
        ("ndp", INCAST, ()),  # sprayed
        (
            "roce",
            'kind = "poisson"\nload = 0.1\nsizes = "8KB"\nn_flows = 5',
            (),
        ),  # flows start at different times
        (
            "roce",
            INCAST,
            ("topology.planes=2", "fabric.plane_balancing=entropy"),
        ),  # the plane depends on the packet
    ]:
        found = figures(tmp_path, transport, traffic, *overrides)
        assert found["fair"] is None
        assert found["row"]["fair_max_ps"] is None
        assert "fair max" not in str([c.name for c in sweep_table([found["row"]], []).columns])
