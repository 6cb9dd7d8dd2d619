"""Dies on a wafer, the share of them that work, and what a good one costs."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

MM2_PER_CM2 = 100.0
DIGITS = 40
"""Of sums that alternate, beside one for each unit: binomial coefficients have fewer."""

POISSON, MURPHY, SEEDS, NEGATIVE_BINOMIAL = "poisson", "murphy", "seeds", "negative_binomial"
YIELDS = (POISSON, MURPHY, SEEDS, NEGATIVE_BINOMIAL)
"""How defects are spread over a wafer; see `die_yield`."""


def dies_per_wafer(
    die_mm2: float, diameter_mm: float = 300.0, edge_mm: float = 0.0, scribe_mm: float = 0.0
) -> int:
    """How many whole dies a round wafer gives; an estimate for dies that are about square.

    N = pi (d/2)^2 / S - pi d / sqrt(2 S), cut off: the wafer's area over a die's, less the dies
    that its edge cuts (Hennessy and Patterson, Computer Architecture: A Quantitative Approach, 1.6,
    cost of an integrated circuit; de Vries, IEEE Transactions on Semiconductor Manufacturing 18,
    2005, holds such formulas against counts). `edge_mm` of the wafer's rim is not used; `scribe_mm`
    is the width of the lanes along which dies are cut apart.

    Raises ValueError for an area or a diameter that is not positive.
    """
    used_mm = diameter_mm - 2 * edge_mm
    if not (die_mm2 > 0 and used_mm > 0):
        raise ValueError("a die and what is used of a wafer have some area")
    taken_mm2 = (math.sqrt(die_mm2) + scribe_mm) ** 2
    whole = math.pi * used_mm**2 / 4 / taken_mm2
    cut = math.pi * used_mm / math.sqrt(2 * taken_mm2)
    return max(math.floor(whole - cut), 0)


def die_yield(
    die_mm2: float, defects_per_cm2: float, model: str = MURPHY, alpha: float | None = None
) -> float:
    """The share of dies without a defect, where A D is the mean number of defects on a die.

    - "poisson": exp(-A D), defects fall independently.
    - "murphy": ((1 - exp(-A D)) / (A D))^2, their density has a triangular distribution (Murphy,
      Proceedings of the IEEE 52, 1964).
    - "seeds": 1 / (1 + A D), their density has an exponential distribution (Seeds 1967).
    - "negative_binomial": (1 + A D / alpha)^-alpha, their density has a gamma distribution, so that
      they cluster the more the smaller alpha is (Stapper, IBM Journal of Research and Development
      27, 1983). At alpha = 1 it is "seeds", without bound "poisson"; alpha must be given.

    Raises ValueError for another model, and for a negative binomial without a positive alpha.
    """
    defects = die_mm2 / MM2_PER_CM2 * defects_per_cm2
    if model == POISSON:
        return math.exp(-defects)
    if model == MURPHY:
        return (-math.expm1(-defects) / defects) ** 2 if defects else 1.0
    if model == SEEDS:
        return 1 / (1 + defects)
    if model != NEGATIVE_BINOMIAL:
        raise ValueError(f"there is no yield model {model!r}: one of {', '.join(YIELDS)}")
    if alpha is None or not alpha > 0:
        raise ValueError("a negative binomial yield needs alpha, above 0")
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
    """The share of dies that can be sold where some of their units may have defects.

    A die has `units` equal units, such as multiprocessors, on a `share` of its area; it works with
    `needed` of them and without a defect elsewhere. Units with defects are switched off. Given the
    density of defects, units fail independently, so that their number is binomial; each term of
    that is an exponential of the density, whose mean over densities is the yield of an area
    (Koren and Koren, Proceedings of the IEEE 86, 1998). The sum alternates, and is done with as
    many digits as that takes.

    Raises ValueError as `die_yield` does, and if more units are needed than there are.
    """
    if not 1 <= needed <= units:
        raise ValueError(f"a die of {units} units cannot need {needed}")
    die_yield(die_mm2, defects_per_cm2, model, alpha)
    with localcontext() as context:
        context.prec = DIGITS + units
        defects = Decimal(die_mm2) / Decimal(MM2_PER_CM2) * Decimal(defects_per_cm2)
        elsewhere, unit = 1 - Decimal(share), Decimal(share) / units

        found = Decimal(0)
        for good in range(needed, units + 1):
            # How likely so many given units, and all that is none, are without a defect.
            whole = _yield_of(defects * (elsewhere + unit * good), model, alpha)
            times = sum(
                math.comb(units, bad) * math.comb(bad, units - good) * (-1) ** (good + bad - units)
                for bad in range(units - good, units - needed + 1)
            )
            found += times * whole
        return float(found)


def _yield_of(defects: Decimal, model: str, alpha: float | None) -> Decimal:
    """`die_yield` with the digits of the context, of a mean number of defects."""
    if not defects:
        return Decimal(1)
    if model == POISSON:
        return (-defects).exp()
    if model == MURPHY:
        return ((1 - (-defects).exp()) / defects) ** 2
    power = Decimal(1 if alpha is None else alpha)
    return (-power * (1 + defects / power).ln()).exp()


def cost_of_good_die_usd(wafer_usd: float, dies: int, yield_share: float) -> float:
    """What a working die costs: its part of the wafer, over the share that works.

    Infinite if a wafer gives none. Test and dicing are not in it.
    """
    good = dies * yield_share
    return wafer_usd / good if good > 0 else math.inf
