"""Dies per wafer, yield, and cost of a die."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

MM2_PER_CM2 = 100.0
DIGITS = 40
"""Digits of alternating sums, plus one per unit."""

POISSON, MURPHY, SEEDS, NEGATIVE_BINOMIAL = "poisson", "murphy", "seeds", "negative_binomial"
YIELDS = (POISSON, MURPHY, SEEDS, NEGATIVE_BINOMIAL)
"""Yield models; see `die_yield`."""


def dies_per_wafer(
    die_mm2: float, diameter_mm: float = 300.0, edge_mm: float = 0.0, scribe_mm: float = 0.0
) -> int:
    """Return the whole dies of a round wafer, an estimate for nearly square dies.

    N = pi (d/2)^2 / S - pi d / sqrt(2 S), truncated: wafer area over die area, minus dies cut by
    the edge (Hennessy and Patterson, Computer Architecture: A Quantitative Approach, 1.6, cost of
    an integrated circuit; de Vries, IEEE Transactions on Semiconductor Manufacturing 18, 2005,
    compares such formulas with counts). `edge_mm` is the unused rim; `scribe_mm` the width of
    scribe lanes. Raises ValueError unless areas are positive.
    """
    used_mm = diameter_mm - 2 * edge_mm
    if not (die_mm2 > 0 and used_mm > 0):
        raise ValueError("die and usable wafer must have a positive area")
    pitch_mm2 = (math.sqrt(die_mm2) + scribe_mm) ** 2
    whole = math.pi * used_mm**2 / 4 / pitch_mm2
    cut = math.pi * used_mm / math.sqrt(2 * pitch_mm2)
    return max(math.floor(whole - cut), 0)


def die_yield(
    die_mm2: float, defects_per_cm2: float, model: str = MURPHY, alpha: float | None = None
) -> float:
    """Return the share of dies without defects, for a mean of A D defects per die.

    - "poisson": exp(-A D), independent defects.
    - "murphy": ((1 - exp(-A D)) / (A D))^2, triangular distribution of density (Murphy, Proceedings
      of the IEEE 52, 1964).
    - "seeds": 1 / (1 + A D), exponential distribution of density (Seeds 1967).
    - "negative_binomial": (1 + A D / alpha)^-alpha, gamma distribution of density: a smaller alpha
      means more clustering (Stapper, IBM Journal of Research and Development 27, 1983). alpha = 1
      is "seeds", infinity "poisson".

    Raises ValueError for another model, or a negative binomial without a positive alpha.
    """
    defects = die_mm2 / MM2_PER_CM2 * defects_per_cm2
    if model == POISSON:
        return math.exp(-defects)
    if model == MURPHY:
        return (-math.expm1(-defects) / defects) ** 2 if defects else 1.0
    if model == SEEDS:
        return 1 / (1 + defects)
    if model != NEGATIVE_BINOMIAL:
        raise ValueError(f"unknown yield model {model!r} (one of {', '.join(YIELDS)})")
    if alpha is None or not alpha > 0:
        raise ValueError("negative_binomial requires a positive alpha")
    return math.exp(-alpha * math.log1p(defects / alpha))


def salvaged_yield(
    die_mm2: float,
    defects_per_cm2: float,
    model: str,
    alpha: float | None,
    units: int,
    needed: int,
    share: float,
) -> float:
    """Return the share of dies that can be sold if defective units may be disabled.

    A die has `units` equal units, such as SMs, on a `share` of its area. It works with `needed`
    good units and no defect elsewhere. For a given defect density, units fail independently, so
    the number of good units is binomial; each term is an exponential of the density, whose mean is
    the yield of an area (Koren and Koren, Proceedings of the IEEE 86, 1998). The sum alternates,
    so it uses extended precision. Raises ValueError as `die_yield`, and if needed > units.
    """
    if not 1 <= needed <= units:
        raise ValueError(f"{needed} needed units exceed {units} units")
    die_yield(die_mm2, defects_per_cm2, model, alpha)
    with localcontext() as context:
        context.prec = DIGITS + units
        defects = Decimal(die_mm2) / Decimal(MM2_PER_CM2) * Decimal(defects_per_cm2)
        elsewhere, unit = 1 - Decimal(share), Decimal(share) / units

        found = Decimal(0)
        for good in range(needed, units + 1):
            # Probability that `good` given units, and the area outside units, have no defect.
            whole = _yield_of(defects * (elsewhere + unit * good), model, alpha)
            times = sum(
                math.comb(units, bad) * math.comb(bad, units - good) * (-1) ** (good + bad - units)
                for bad in range(units - good, units - needed + 1)
            )
            found += times * whole
        return float(found)


def _yield_of(defects: Decimal, model: str, alpha: float | None) -> Decimal:
    """Return `die_yield` for a mean number of defects, with the context's precision."""
    if not defects:
        return Decimal(1)
    if model == POISSON:
        return (-defects).exp()
    if model == MURPHY:
        return ((1 - (-defects).exp()) / defects) ** 2
    power = Decimal(1 if alpha is None else alpha)
    return (-power * (1 + defects / power).ln()).exp()


def cost_of_good_die_usd(wafer_usd: float, dies: int, yield_share: float) -> float:
    """Return the price of a good die, without test and dicing; infinite if there is none."""
    good = dies * yield_share
    return wafer_usd / good if good > 0 else math.inf
