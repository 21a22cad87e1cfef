"""Two models compared: what differs in structure, config, formulas, objectives, weights, stored names and cost.

    sides.py      a spec with its config: the model's graphs, its blocks, the models and objectives beside it
    facts.py      what is true of a model by meaning: how tokens get places, who sees whom, which norm stands where
    blocks.py     the tree of blocks;  matching.py  which block, weight or model of the one is which of the other
    meaning.py    whether two graphs are the same but for names, order of terms and spelling
    formulas.py configs.py weights.py objectives.py costs.py    the changes of each part
    change.py     what a change is;  comparing.py  all parts together, sorted, what merely follows marked
"""

from .change import Change, Differences
from .comparing import compared
from .sides import Side, side

__all__ = ["Change", "Differences", "Side", "compared", "side"]
