"""The formula graph: interned, immutable nodes over named axes.

A `Node` is one core operation; two nodes with the same operation, arguments, attributes and axes are one object, so
common subexpressions exist once and equality is identity. Nothing here recurses: graphs may be arbitrarily deep.

Core operations and their attributes (every one is a pure function of its arguments):

    input name                 what the caller gives; an argument, if any, is the default
    weight name                a parameter; stacked instances have their stack's axis
    const value                a number or truth value
    table values axis          one number per entry of an axis (a vector from config.json)
    index axis                 0, 1, … along an axis (the order, not the position id)
    position axis              the position id along a length, index unless the caller gives position_ids
    size axis                  how many entries an axis has, one number per owner
    map fn                     a scalar function, entry by entry, aligned by axis
    contract over              sum over axes of the product of two values
    reduce kind over           sum, mean, prod, max, min, argmax, count, any, all, norm; a 2nd argument is the condition
    pick keys                  x at the given numbers along axes (arguments after x), simultaneous, aligned
    rename pairs               the same entries under other axes
    split axis into · merge gone into
    concat along into          along an axis, into an axis of a new name; an argument without the axis is one entry
    widen axis                 repeated along a new axis
    rank axis                  how many entries along the axis are larger (ties: by order)
    visible axis               whether each entry along a length may be seen: what a reduction over it looks at
    total over                 sum of the product of its arguments over axes, hidden entries included: what repeating
                               and aligning are undone by
    scatter keys               the argument added up at the given numbers along axes (arguments after it), 0 where
                               nobody is; a number out of range adds to nothing: what picking is undone by
    selected among axis into   the places along `axis` of the entries among axes at which the argument holds, in order,
                               along an axis as long as they are many; without an axis: true, that the place counts;
                               hidden: of all entries that exist, hidden ones too
    order axis                 the place of the i-th smallest entry along the axis (ties: by order)
    repeat axis into           the place along the axis of each entry of a new length, where it stands as often as the
                               argument says
    random draw site steps     a draw, new at each step of the loops in `steps`; arguments are its parameters; with
                               picked, drawn: a dropout of the rows at its last arguments, of what is drawn for all;
                               with counted: so many arguments at the end are the numbers of the steps
    counter loop               the step number inside a loop
    carry loop slot            a state at the start of a step
    past loop slot             an earlier state inside a loop; the argument is its number
    loop loop slots start      runs a body; arguments: first states, number of steps, what the body takes from outside
    state slot · history slot  a loop's last state, or (argument 2) the state of any number
    append name along into     the rows of earlier calls, then the argument's, which are kept; more arguments: the
                               numbers of the steps that have rows of their own
    keep name · stored name    the argument, for later calls, and what was kept; numbers of steps as above
    kernel name                a recognised meaning, made by passes only (site, steps: as of the draw that it holds)
"""

from __future__ import annotations

from .graphs import (
    Graph,
    Input,
    Origin,
    Output,
    Weight,
    take_origin,
)
from .making import (
    append,
    apply,
    carry,
    concat,
    const,
    contract,
    counter,
    draw,
    drawing_order,
    existing,
    history,
    index,
    input_,
    keep,
    kernel,
    loop,
    merge,
    order,
    owned,
    past,
    pick,
    position,
    rank,
    reduce,
    rename,
    renamed,
    repeat,
    scatter,
    selected,
    size,
    split,
    state,
    table,
    total,
    union,
    visible,
    weight,
    where,
    widen,
    widen_to,
)
from .nodes import (
    Axis,
    Length,
    Node,
    Size,
    at_selected,
    invariants,
    node,
    ordered,
    walk,
    walk_all,
)
from .rewriting import (
    Rewrite,
    rebuild,
    transform,
)

__all__ = [
    "Axis",
    "Graph",
    "Input",
    "Length",
    "Node",
    "Origin",
    "Output",
    "Rewrite",
    "Size",
    "Weight",
    "append",
    "apply",
    "at_selected",
    "carry",
    "concat",
    "const",
    "contract",
    "counter",
    "draw",
    "drawing_order",
    "existing",
    "history",
    "index",
    "input_",
    "invariants",
    "keep",
    "kernel",
    "loop",
    "merge",
    "node",
    "order",
    "ordered",
    "owned",
    "past",
    "pick",
    "position",
    "rank",
    "rebuild",
    "reduce",
    "rename",
    "renamed",
    "repeat",
    "scatter",
    "selected",
    "size",
    "split",
    "state",
    "table",
    "take_origin",
    "total",
    "transform",
    "union",
    "visible",
    "walk",
    "walk_all",
    "weight",
    "where",
    "widen",
    "widen_to",
]
