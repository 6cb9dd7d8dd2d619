"""`netsim reproduce`: the figure, and the paper's values beside ours."""


def test_figure_4(netsim, tmp_path):
    result = netsim("reproduce", "fig4")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "fig4.png").stat().st_size > 30_000
    lines = [line.split() for line in result.stdout.splitlines()]
    (tree,) = [line for line in lines if line[:2] == ["fat", "tree,"]]
    assert tree[5:] == ["4", "87,500", "87,500", "+0.0", "%", "2,400,000", "2,400,000", "+0.0", "%"]
    (rails,) = [line for line in lines if line[:2] == ["76", "rails"]]
    assert rails[5:9] == ["2", "37,500", "39,000", "-3.8"]
