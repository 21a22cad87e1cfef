"""Translation validation: every pass is proved on the spot, on the same formulas at small adversarial sizes.

    sizes      the config with other sizes: pairwise different ones, all equal ones, ones
    cases      inputs and weights: masks of every kind, large and tiny numbers, NaN planted in padding
    rounding   how much of the rounding of each operation reaches a result
    fitting    small models whose tables are large enough for the cases
    slopes     gradients against differences of the formula's loss
    trial      a case, evaluated on one graph after the other
    proof      every stage against the one before it
"""

from __future__ import annotations

from .proof import Proof, prove, prove_quickly
from .trial import Measure

__all__ = ["Measure", "Proof", "prove", "prove_quickly"]
