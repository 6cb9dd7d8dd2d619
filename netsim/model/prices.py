"""Cost and power of a network, by a price table that a file can replace."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netsim.common.inputs import read_toml
from netsim.errors import InputError, did_you_mean
from netsim.model.inventory import FIBER, LENGTHS, SCALE_UP, Inventory
from netsim.units import written

BUILT_IN = Path(__file__).with_name("prices.toml")
BPS_PER_GBPS = 1e9
CABLE = "cable"
SCALE_UP_PORT = "scale_up_port"
PARTS = (
    SCALE_UP_PORT,
    "nic_port",
    "switch_port",
    "circuit_port",
    "fiber",
    *(f"{CABLE}.{n}" for n in LENGTHS),
)
NUMBERS = ("usd", "usd_per_gbps", "watts", "watts_per_gbps")


@dataclass(frozen=True)
class Price:
    """Price and power of one piece: a constant, and a part per Gbit/s of line rate."""

    source: str
    usd: float = 0.0
    usd_per_gbps: float = 0.0
    watts: float = 0.0
    watts_per_gbps: float = 0.0


@dataclass(frozen=True)
class BillRow:
    """All pieces of one part; `source` is the source of its price."""

    part: str
    count: int
    usd: float
    watts: float
    source: str


def read_prices(path: Path | None = None) -> dict[str, Price]:
    """Return prices by part: those of netsim, replaced by those of the file `path`. Raises
    InputError, with file and key, for an invalid price table."""
    prices = _read(BUILT_IN)
    return prices if path is None else prices | _read(path)


def bill(counted: Inventory, prices: Mapping[str, Price]) -> tuple[BillRow, ...]:
    """Return cost and power of each part that a network has."""
    pieces: dict[str, list[tuple[int, float]]] = {part: [] for part in PARTS}
    for nic in counted.nics:
        if not nic.is_scale_up:  # else it belongs to the host
            pieces["nic_port"].append((nic.hosts * nic.ports, nic.port_rate_bps))
    for switch in counted.switches:
        share = switch.rate_bps / switch.ports
        part = SCALE_UP_PORT if switch.is_scale_up else "switch_port"
        pieces[part].append((switch.count * switch.ports, share))
    for circuit in counted.circuit_switches:
        pieces["circuit_port"].append((circuit.count * circuit.ports, circuit.rate_bps))
    for cable in counted.cables:
        if cable.length == SCALE_UP:
            continue  # part of its port
        part = "fiber" if cable.joins == FIBER else f"{CABLE}.{cable.length}"
        pieces[part].append((cable.count, cable.rate_bps))
    rows = []
    for part, these in pieces.items():
        count = sum(n for n, _ in these)
        gbps = sum(n * rate_bps for n, rate_bps in these) / BPS_PER_GBPS
        price = prices[part]
        if count:
            usd = price.usd * count + price.usd_per_gbps * gbps
            watts = price.watts * count + price.watts_per_gbps * gbps
            rows.append(BillRow(part, count, usd, watts, price.source))
    return tuple(rows)


def _read(path: Path) -> dict[str, Price]:
    tree = read_toml(path)
    lengths = tree.pop(CABLE, {})
    if not isinstance(lengths, dict):
        raise _wrong(path, CABLE, "is not a table", f"[{CABLE}.{LENGTHS[0]}]")
    tables = tree | {f"{CABLE}.{length}": table for length, table in lengths.items()}
    for part in tables:
        if part not in PARTS:
            raise _wrong(path, part, "unknown part of a network", did_you_mean(part, PARTS))
    return {part: _price(path, part, table) for part, table in tables.items()}


def _price(path: Path, part: str, table: Any) -> Price:
    if not isinstance(table, dict):
        raise _wrong(path, part, "is not a table", f"[{part}]")
    for key, value in table.items():
        where = f"{part}.{key}"
        if key not in (*NUMBERS, "source"):
            raise _wrong(path, where, "unknown key", did_you_mean(key, (*NUMBERS, "source")))
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if key in NUMBERS and not (number and 0 <= value < math.inf):
            raise _wrong(path, where, f"{written(value)} is not a price", "a number, at least 0")
    source = table.get("source")
    if not isinstance(source, str) or not source.strip():
        raise _wrong(path, f"{part}.source", "missing", "a text: where the price is from")
    return Price(**table)


def _wrong(path: Path, key: str, message: str, hint: str | None) -> InputError:
    return InputError(message, file=str(path), key=key, hint=hint)
