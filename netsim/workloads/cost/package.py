"""What is around a die: memory, package and optics; what they cost and draw."""

from __future__ import annotations

BITS_PER_GBIT = 1e9
PJ_PER_J = 1e12


def memory_usd(memory_gb: float, usd_per_gb: float) -> float:
    """Price of stacked memory by its size; twice the bandwidth of the same size is not counted."""
    return memory_gb * usd_per_gb


def package_usd(die_mm2: float, usd_per_mm2: float, usd: float) -> float:
    """Interposer, substrate, assembly and test: a part by the die's area and a part for each."""
    return die_mm2 * usd_per_mm2 + usd


def link_usd(rate_gbps: float, usd_per_gbps: float) -> float:
    """Price of one end of a GPU's links by their rate, one way, in Gbit/s."""
    return rate_gbps * usd_per_gbps


def link_watts(rate_gbps: float, pj_per_bit: float) -> float:
    """Power of one end of links that send and receive `rate_gbps` each way.

    `pj_per_bit` is the power of an end over its rate one way, as of a transceiver.
    """
    return rate_gbps * BITS_PER_GBIT * pj_per_bit / PJ_PER_J
