"""Result tables are declared as text."""

from netsim.results.columns import Column, TableSpec


def test_table_spec_parses_lines_as_columns() -> None:
    """Indented lines continue the description; ``?`` marks nullable, ``*`` optional columns."""
    spec = TableSpec.of(
        "made_up",
        """
        flow       index  flow, in the order
            of the traffic
        start_ps?  ps     start
        label*     -      name of the flow
        """,
        hash_order=3,
    )
    assert spec == TableSpec(
        "made_up",
        (
            Column("flow", "index", "flow, in the order of the traffic"),
            Column("start_ps", "ps", "start", null_below_zero=True),
            Column("label", "", "name of the flow", optional=True),
        ),
        hash_order=3,
    )
