"""Faults that users of other compilers have reported, each as an edit of ours: the tests must see every one of them.

A row is one mutant: add yours beside the pass that it breaks. The old text must stand in the file exactly once (a fast
test says so when the code moves on). `tests` are tried first; then those of the file's folder, see run.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """An edit of a file, and the kind of fault that it stands for."""

    name: str
    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...] = ()


RULES = ("tests/compiler/test_rules.py",)
PASSES = ("tests/compiler/test_passes.py::test_every_stage_keeps_every_result",)
READ = tuple(
    f"tests/compiler/test_passes.py::{name}"
    for name in (
        "test_fusion_swallows_no_result", "test_a_query_that_is_read_elsewhere_is_not_scaled", "test_each_result_alone",
    )
)  # fmt: skip
OWNER = ("tests/compiler/test_passes.py::test_lengths_go_with_their_owner",)
ATTENTIONS = ("tests/compiler/test_recognise_attention.py",)
FUNCTIONS = ("tests/compiler/test_recognise.py",)
DROPOUT = ("tests/compiler/test_dropout.py",)
PICKS = ("tests/compiler/test_push_picks.py", "tests/fuzz/test_fuzz.py")
RUNNING = ("tests/compiler/test_running.py",)
LOOPS = ("tests/compiler/test_loops.py",)
KERNELS = ("tests/backends/numpy/test_kernels.py",)
ADAMW = ("tests/backends/numpy/test_adamw.py",)
FITS = ("tests/training/test_numpy.py",)
NUMPY_VALUES = ("tests/backends/numpy/test_module.py::test_module_is_the_formula",)
NEVER_WRAP = ("tests/backends/numpy/test_module.py::test_computed_places_outside_a_table_never_wrap",)
RANDOM = ("tests/backends/numpy/test_random.py",)
WHOLES = ("tests/fuzz/test_wholes.py",)
TORCH_VALUES = ("tests/backends/torch/test_module.py::test_module_has_the_values_of_the_formulas",)
TRAINING = ("tests/backends/torch/test_training.py",)
LOSSES = ("tests/specs/test_losses.py",)
FUZZ = ("tests/fuzz/test_fuzz.py",)
CHOOSING = ("tests/backends/test_choosing.py",)
GENERATION = ("tests/specs/test_generate.py", "tests/backends/test_generation.py")
GPT = ("tests/specs/test_gpt2.py",)
PROPERTIES = ("tests/backends/test_corruptions.py",)
CORRUPTING = ("tests/backends/test_corrupting.py",)
LENGTHS = ("tests/compiler/test_lengths.py",)
PACKED = ("tests/compiler/test_pack.py", "tests/backends/test_objective_rows.py", "tests/fuzz/test_fuzz.py")
ATTENDED = ("tests/backends/numpy/test_attending.py", "tests/backends/test_objective_rows.py")

ALGEBRA = (
    Mutant(
        "selected sum forgets a condition", "compiler/rules/algebra.py",
        '        condition = ir.apply("and", node.args[1], condition)\n',
        "        condition = node.args[1]\n",
        "a mask is lost when two meet", RULES,
    ),
    Mutant(
        "and becomes or", "compiler/rules/algebra.py",
        'ir.apply("and", node.args[1], condition)',
        'ir.apply("or", node.args[1], condition)',
        "causal and padding merge to what either lets through", RULES,
    ),
    Mutant(
        "0 - x is x", "compiler/rules/algebra.py",
        'if fn in ("+", "*") and number(left) == {"+": 0, "*": 1}[fn]:',
        'if fn in ("+", "*", "-") and number(left) == {"+": 0, "*": 1, "-": 0}[fn]:',
        "a neutral element on the wrong side", RULES,
    ),
    Mutant(
        "not < is >", "compiler/rules/algebra.py",
        'OPPOSITE = {"<": ">="',
        'OPPOSITE = {"<": ">"',
        "the diagonal of a mask is lost", RULES,
    ),
    Mutant(
        "not < of reals", "compiler/rules/algebra.py",
        'return "" if kinds == {"int"} else "real',
        'return "" if kinds else "real',
        "a comparison turned round where NaN may stand", RULES,
    ),
    Mutant(
        "≥ mirrored to <", "compiler/rules/algebra.py",
        'MIRROR = {">": "<", ">=": "<="}',
        'MIRROR = {">": "<", ">=": "<"}',
        "the diagonal of a mask is lost", RULES,
    ),
    Mutant(
        "decided the other way", "compiler/rules/algebra.py",
        "one.args[1 if holds else 2]",
        "one.args[2 if holds else 1]",
        "polarity of a selection that is decided", RULES,
    ),
    Mutant(
        "shares of another sum", "compiler/rules/algebra.py",
        'if not is_map(total.args[0], "exp") or total.args[0] not in product.args:',
        'if not is_map(total.args[0], "exp"):',
        "a quotient that is no softmax taken for one", RULES,
    ),
    Mutant(
        "a sum over one side", "compiler/rules/algebra.py",
        'shared = all(axis in left.axes and axis in right.axes for axis in one["over"])',
        "shared = True",
        "summed before it is weighted", RULES,
    ),
    Mutant(
        "dropout of all is none", "compiler/rules/algebra.py",
        'number(one.args[1]) == 0:\n        return {"node": one, "kept"',
        'number(one.args[1]) in (0, 1):\n        return {"node": one, "kept"',
        "a rate of 1 is not a rate of 0", RULES,
    ),
    Mutant(
        "any dropout is none", "compiler/rules/algebra.py",
        'number(one.args[1]) == 0:\n        return {"node": one, "kept"',
        'number(one.args[1]) is not None:\n        return {"node": one, "kept"',
        "dropout lost in training", DROPOUT,
    ),
    Mutant(
        "renamed past the numbers of a pick", "compiler/rules/renames.py",
        "    if any(old in arg.axes or new in arg.axes for arg in rest):\n",
        "    if False:\n",
        "an axis captured", PASSES,
    ),
    Mutant(
        "an owner left behind", "compiler/rules/renames.py",
        "        if not bad:\n",
        "        if bad or not bad:\n",
        "lengths of one axis read by another's examples", OWNER,
    ),
)  # fmt: skip

RECOGNITION = (
    Mutant(
        "results are no readers", "compiler/rules/rule.py",
        "            for root in self.roots:\n                self._readers[root] = self._readers.get(root, 0) + 1\n",
        "",
        "fusion swallows a value that is a result", READ,
    ),
    Mutant(
        "look-alikes pass", "compiler/passes/probe.py",
        "TOLERANCE = 1e-11",
        "TOLERANCE = 1e-2",
        "one GELU for the other, an ε for none", FUNCTIONS,
    ),
    Mutant(
        "one draw tells all", "compiler/passes/probe.py",
        "for scale in (1.0, 1e-6, 30.0, 1e-3, 0.0, *far)]",
        "for scale in (1.0, *far[:0])]",
        "a bound or an ε that shows elsewhere", FUNCTIONS,
    ),
    Mutant(
        "a stop is looked through", "compiler/passes/recognise.py",
        "if moved[region.root] is region.root:",
        "if moved[region.root] is not None:",
        "a gradient that the author cut", DROPOUT,
    ),
    Mutant(
        "a loop that starts anywhere", "compiler/passes/running.py",
        " or first is not ir.const(0)",
        "",
        "a running sum without what it starts from", RUNNING,
    ),
    Mutant(
        "running sum without its own entry", "compiler/kernels.py",
        'return ir.history(made, 0, ir.apply("+", ir.index(axis), ir.const(1)))',
        "return ir.history(made, 0, ir.index(axis))",
        "off by one", PASSES,
    ),
    Mutant(
        "hidden keys weigh", "compiler/kernels.py",
        "return share if see is None else ir.where(see, share, number(0))",
        "return share",
        "a masked key gets a share", ATTENTIONS,
    ),
    Mutant(
        "dropout before a shared selection", "compiler/passes/selected.py",
        "if context.readers(draw) == 1 and set(",
        "if set(",
        "drawn twice where it was drawn once", DROPOUT,
    ),
    Mutant(
        "dropout along the mask's axes", "compiler/passes/selected.py",
        " and set(condition.axes) <= set(draw.axes):",
        ":",
        "draws of other axes than the author's", DROPOUT,
    ),
)  # fmt: skip

ATTENTION = (
    Mutant(
        "weights that are read are swallowed", "compiler/passes/attention.py",
        "if context.readers(weights) > 1 or context.readers(share) > 1:",
        "if context.readers(weights) > 99:",
        "attention weights that are a result, too", READ,
    ),
    Mutant(
        "the key's scale is lost", "compiler/passes/scores.py",
        "factor.times(left * right)",
        "factor.times(left)",
        "a scale written on the key", ATTENTIONS,
    ),
    Mutant(
        "the bias is not scaled", "compiler/passes/attention.py",
        "scaled = one.factor.on(term)",
        "scaled = term",
        "(QK + B) / √d read as QK / √d + B", ATTENTIONS,
    ),
    Mutant(
        "a subtracted bias is added", "compiler/passes/scores.py",
        'sign = Fraction(1 if one["fn"] == "+" else -1)',
        "sign = Fraction(1)",
        "the sign of a bias", ATTENTIONS,
    ),
    Mutant(
        "attention without its mask", "compiler/passes/attention.py",
        '"see": at.get("see"), "bias": bias}',
        '"see": None, "bias": bias}',
        "the future is seen", ATTENTIONS,
    ),
    Mutant(
        "the scale is taken twice", "compiler/passes/fold_scales.py",
        'attrs = {**one.attrs, "scale": Fraction(1)}',
        "attrs = {**one.attrs}",
        "a fused attention scales by itself", PASSES,
    ),
    Mutant(
        "a bias without the scale", "compiler/passes/fold_scales.py",
        'ir.apply("+", made, ir.apply("*", bias, factor))',
        'ir.apply("+", made, bias)',
        "the scale in W and not in b", PASSES,
    ),
    Mutant(
        "a shared query is scaled", "compiler/passes/fold_scales.py",
        "if context.readers(query) > 1 or (product is not query and context.readers(product) > 1):",
        "if context.readers(query) > 99:",
        "somebody else reads the query", READ,
    ),
)  # fmt: skip

FUSION = (
    Mutant(
        "projections in another order", "compiler/passes/merge_projections.py",
        "ir.const(place)}) for place, one",
        "ir.const(len(group) - 1 - place)}) for place, one",
        "Q, K and V exchanged", PASSES,
    ),
    Mutant(
        "biases in another order", "compiler/passes/merge_projections.py",
        "ir.concat(biases, [None]",
        "ir.concat(biases[::-1], [None]",
        "the bias of V added to Q", PASSES,
    ),
    Mutant(
        "unlike projections are merged", "compiler/passes/merge_projections.py",
        'return f"the products have different axes: {shapes}"',
        'return ""',
        "products of unlike shapes taken for like ones", PASSES,
    ),
    Mutant(
        "the residual is dropped", "compiler/passes/fuse.py",
        'return {**taken, "x": rest, "residual": values[-1]}, ""',
        'return {**taken, "x": rest}, ""',
        "norm(x + f(x)) as norm(f(x))", PASSES,
    ),
    Mutant(
        "a third term is dropped", "compiler/passes/fuse.py",
        "for term in values[1:-1]:",
        "for term in values[2:-1]:",
        "a sum of several residuals", (*PASSES, *RANDOM),
    ),
    Mutant(
        "a sum that is read is swallowed", "compiler/passes/fuse.py",
        "if context.readers(total) > 1:",
        "if context.readers(total) > 99:",
        "the sum before a norm is a result, too", READ,
    ),
    Mutant(
        "a bias of any axis", "compiler/passes/fuse.py",
        'return term.axes == (one["axis"],)',
        "return len(term.axes) == 1",
        "a bias along another axis of the same size", (*PASSES, *FUZZ),
    ),
    Mutant(
        "a tie forgotten", "compiler/ties.py",
        "            one_of[left] = right\n",
        "            pass\n",
        "the output projection loses its tie", ("tests/compiler/test_ties.py",),
    ),
    Mutant(
        "one counter for all loops", "compiler/making.py",
        'return node("counter", kind="int", loop=loop)',
        'return node("counter", kind="int", loop=0)',
        "equal parts of two loops taken for one", LOOPS,
    ),
    Mutant(
        "an outer step is no step", "compiler/nodes.py",
        'if op in ("counter", "carry", "past"):',
        'if op in ("counter", "carry"):',
        "what changes from step to step is moved out of a loop", (*LOOPS, *PASSES),
    ),
    Mutant(
        "lengths as parameters", "compiler/passes/parameters.py",
        "return pure and not any(axis.ragged for axis in one.axes)",
        "return pure",
        "what depends on the text frozen at load time", NUMPY_VALUES,
    ),
)  # fmt: skip

PUSHED = (
    Mutant(
        "rows of what mixes rows", "compiler/passes/demand.py",
        "    if axes & _mixed(one):\n",
        "    if False:\n",
        "a softmax or a norm of some rows alone", PICKS,
    ),
    Mutant(
        "rows along a summed axis", "compiler/passes/demand.py",
        "    if brought & hidden:\n",
        "    if False:\n",
        "an axis captured", PICKS,
    ),
    Mutant(
        "rows of another's length", "compiler/passes/demand.py",
        "if _left_behind(one, rows) or any(_left_behind(arg, inner_rows(one, arg, rows)) for arg in one.args):",
        "if False:",
        "lengths of one axis read by another's examples", (*PICKS, "tests/compiler/test_objectives.py"),
    ),
    Mutant(
        "a result is no reader of all rows", "compiler/passes/demand.py",
        'dict.fromkeys(roots, "it is a result")',
        "{}",
        "a value that is a result is computed at some rows", PICKS,
    ),
    Mutant(
        "one draw for each selection", "compiler/passes/demand.py",
        'if kernels.is_draw(one) and (several or one.get("picked")):',
        "if False:",
        "drawn twice where it was drawn once", PICKS,
    ),
    Mutant(
        "one step too many", "compiler/passes/push_picks.py",
        'one["start"], ir.const(last), first',
        'one["start"], ir.const(last + 1), first',
        "off by one", PICKS,
    ),
    Mutant(
        "the last step has another number", "compiler/passes/push_picks.py",
        "            return ir.const(last)\n",
        "            return ir.const(last - 1)\n",
        "the weights of another layer", PICKS,
    ),
    Mutant(
        "a state that is read whole", "compiler/passes/push_picks.py",
        'if any(node.op == "state" and not demand.partial(node) for node in readers):',
        "if False:",
        "a last step that is made twice", PICKS,
    ),
    Mutant(
        "loops of one number", "compiler/passes/push_picks.py",
        "    shift = 1 + max(",
        "    shift = 0 * max(",
        "equal parts of two loops taken for one", PICKS,
    ),
)  # fmt: skip

NUMPY = (
    Mutant(
        "no guard of empty rows", "backends/numpy/kernels.py",
        "    sums[sums == 0] = 1\n",
        "",
        "0 / 0 where nothing is seen", KERNELS,
    ),
    Mutant(
        "polarity of a relation", "backends/numpy/kernels.py",
        "np.copyto(s, -np.inf, where=~relation_block(see, task))",
        "np.copyto(s, -np.inf, where=relation_block(see, task))",
        "True means hidden to half of the world", KERNELS,
    ),
    Mutant(
        "the corner of the mask", "backends/numpy/kernels.py",
        "[..., first : first + queries, :keys]",
        "[..., :queries, :keys]",
        "top-left instead of the query's own rows", KERNELS,
    ),
    Mutant(
        "hidden keys are keys", "backends/numpy/kernels.py",
        "        np.copyto(s, -np.inf, where=hidden[key : key + n * keys].reshape(n, 1, 1, keys))\n",
        "        pass\n",
        "holes of a mask are seen", KERNELS,
    ),
    Mutant(
        "no shift of large scores", "backends/numpy/kernels.py",
        "            if not calm:\n",
        "            if False:\n",
        "exp overflows", KERNELS,
    ),
    Mutant(
        "ε is dropped", "backends/numpy/kernels.py",
        "    rows *= 1 / np.sqrt(mean_square(rows) + eps)\n    if gain",
        "    rows *= 1 / np.sqrt(mean_square(rows))\n    if gain",
        "a norm of a constant row", KERNELS,
    ),
    Mutant(
        "ε outside the root", "backends/numpy/kernels.py",
        "        rows *= 1 / np.sqrt(mean_square(rows) + eps)\n        if gain",
        "        rows *= 1 / (np.sqrt(mean_square(rows)) + eps)\n        if gain",
        "the other place of ε", KERNELS,
    ),
    Mutant(
        "a bias of a norm is dropped", "backends/numpy/kernels.py",
        (
            "        if bias is not None:\n"
            "            rows += bias\n"
            "        if beside is not None:\n"
            "            rows += beside\n"
            "        layer_norm_step"
        ),
        "        if beside is not None:\n            rows += beside\n        layer_norm_step",
        "a fused sum loses a part", KERNELS,
    ),
    Mutant(
        "the mean counts hidden rows", "backends/numpy/kernels.py",
        "count = np.maximum(segment_counts(lengths, visible), 1)",
        "count = np.maximum(segment_counts(lengths), 1)",
        "divided by the padded length", KERNELS,
    ),
    Mutant(
        "half sums", "backends/numpy/kernels.py",
        "x.dtype in (np.float32, np.float64)",
        "x.dtype in (np.float16, np.float32, np.float64)",
        "statistics of a norm in half precision", KERNELS,
    ),
    Mutant(
        "conditions show hidden rows", "backends/numpy/rows.py",
        "({condition}) & ~hidden",
        "({condition})",
        "padding inside a conditional mean", NUMPY_VALUES,
    ),
    Mutant(
        "no condition of lengths", "backends/numpy/writer.py",
        "parts = self.visible(over, lead, dims)",
        "parts: list[str] = []",
        "padding is reduced, too", WHOLES,
    ),
    Mutant(
        "whole numbers are rounded", "backends/numpy/writer.py",
        'return pointwise and self.value(kernel_table.parts(one)["x"]).wide',
        "return False",
        "a place of a table in half precision", WHOLES,
    ),
    Mutant(
        "softmax along the last axis", "backends/numpy/softmax.py",
        (
            "    lead, dims = writer.order(one, [value])\n"
            '    dims = (*(axis for axis in dims if axis != one["axis"]), one["axis"])\n'
        ),
        "    lead, dims = writer.order(one, [value])\n",
        "an axis taken by its place", WHOLES,
    ),
    Mutant(
        "memory freed too early", "backends/numpy/buffers.py",
        "at = last.get(one, place[one]) if one in flows else place[one]",
        "at = place[one]",
        "scratch memory written over before a view is read", RANDOM,
    ),
    Mutant(
        "written over while it is read", "backends/numpy/packed.py",
        "return inside and self.last.get(arg, self.here) <= self.here",
        "return inside",
        "in place over a living value", RANDOM,
    ),
    Mutant(
        "a buffer is one value's", "backends/numpy/buffers.py",
        "self.held[name] = max(self.held.get(name, -1), until)",
        "self.held[name] = until",
        "a view outlives its value", RANDOM,
    ),
    Mutant(
        "one step too few", "backends/numpy/loops.py",
        "in range({start}{writer.last_step(one, stop)}):",
        "in range({start}{writer.last_step(one, stop)} - 1):",
        "off by one", NUMPY_VALUES,
    ),
    Mutant(
        "states are not kept", "backends/numpy/loops.py",
        "= [{writer.copied(names[slot])}]",
        "= [{names[slot]}]",
        "an earlier state is written over", (*NUMPY_VALUES, *RANDOM),
    ),
    Mutant(
        "a place out of range is the last", "backends/numpy/dense.py",
        "    if bad.any():\n",
        "    if False:\n",
        "a pick that clamps", NEVER_WRAP,
    ),
    Mutant(
        "the last of equals", "backends/numpy/dense.py",
        "return np.asarray(chosen.argmax(axis=axes[0]))",
        "return np.asarray(chosen.shape[axes[0]] - 1 - np.flip(chosen, axes[0]).argmax(axis=axes[0]))",
        "ties of argmax", WHOLES,
    ),
    Mutant(
        "ranks without order", "backends/numpy/dense.py",
        'order = np.argsort(-value, axis=-1, kind="stable")',
        "order = np.flip(np.argsort(value, axis=-1), -1)",
        "ties of rank", WHOLES,
    ),
    Mutant(
        "hidden labels count", "backends/numpy/losses.py",
        "if a in axes or a.owner in axes]",
        "if a in axes]",
        "padding in a loss over the batch", LOSSES,
    ),
)  # fmt: skip

TORCH = (
    Mutant(
        "mean over the padded length", "backends/torch/functions.py",
        "total / see.expand(zeros.shape).sum(dim=dims).clamp(min=1)",
        "total / zeros.shape[dims[0]]",
        "divided by the padded length", TORCH_VALUES,
    ),
    Mutant(
        "places of the padded batch", "backends/torch/functions.py",
        "at = torch.arange(seq, device=visible.device) - first[:, None]",
        "at = torch.arange(seq, device=visible.device) - 0 * first[:, None]",
        "positions under left padding", TORCH_VALUES,
    ),
    Mutant(
        "polarity of a bias", "backends/torch/functions.py",
        'bias.to(dtype).masked_fill(~see, float("-inf"))',
        'bias.to(dtype).masked_fill(see, float("-inf"))',
        "True means hidden to half of the world", TORCH_VALUES,
    ),
    Mutant(
        "a label out of range", "backends/torch/functions.py",
        "return found.masked_fill(bad.reshape(bad.shape + (1,) * (found.dim() - bad.dim())), none)",
        "return found",
        "a wrong label gives a loss all the same", LOSSES,
    ),
    Mutant(
        "the first entry of the batch", "backends/torch/writer.py",
        'return f".sub({aligned(first, \'\', dims)}).clamp(min=0)"',
        'return ""',
        "argmax under left padding", WHOLES,
    ),
    Mutant(
        "the other GELU", "backends/torch/kernels.py",
        '"F.gelu({})"',
        '\'F.gelu({}, approximate="tanh")\'',
        "erf for tanh", TORCH_VALUES,
    ),
    Mutant(
        "a default ε", "backends/torch/kernels.py",
        "{gain}, {shift}, {float(one['eps'])!r})",
        "{gain}, {shift}, 1e-05)",
        "the ε of the library instead of the spec's", TORCH_VALUES,
    ),
    Mutant(
        "the default scale", "backends/torch/kernels.py",
        ", scale={float(one['scale'])!r})\"",
        ')"',
        "a fused attention has a scale of its own", TORCH_VALUES,
    ),
    Mutant(
        "groups of heads in another order", "backends/torch/packing.py",
        "x.repeat_interleave(heads[1], dim=1)",
        "x.repeat(1, heads[1], 1)",
        "grouped queries read another key", TORCH_VALUES,
    ),
    Mutant(
        "rows and columns exchanged", "backends/torch/weights.py",
        "dims = (*(weight.outs or ()), *weight.ins)",
        "dims = (*weight.ins, *(weight.outs or ()))",
        "[in, out] read as [out, in], which squares hide", (*TORCH_VALUES, *FUZZ),
    ),
    Mutant(
        "dropout in evaluation", "backends/torch/writer.py",
        "{rate.text}, self.training)",
        "{rate.text}, True)",
        "noise at inference", TRAINING,
    ),
    Mutant(
        "a bias is taken as it lies", "backends/torch/writer.py",
        "self.weights.is_weight(bias) and bias.axes == outs",
        "self.weights.is_weight(bias)",
        "a bias of turned axes in a linear", (*TORCH_VALUES, *FUZZ),
    ),
    Mutant(
        "a product read twice is absorbed", "backends/torch/writer.py",
        "if fits and readers[product] == 1:",
        "if fits:",
        "a product with and without its bias", (*TORCH_VALUES, *FUZZ),
    ),
    Mutant(
        "labels in the width of the model", "backends/torch/writer.py",
        'lead, (*at, *rest), wide=base.wide)',
        'lead, (*at, *rest))',
        "labels above 256 are rounded in half precision", GPT,
    ),
    Mutant(
        "a default beyond the table", "backends/limits.py",
        'and 0 <= here.args[0]["value"] + shift < axis.size',
        "and axis.size > 0",
        "the row of no segment is read", GPT,
    ),
    Mutant(
        "the mask of a memory", "compiler/reference.py",
        'if first.startswith("encoder_") else',
        "if len(found) > 1 else",
        "a mask by the place of its input, not by its name", ("tests/compiler/test_heads.py",),
    ),
    Mutant(
        "an input that nobody reads", "compiler/lower.py",
        "if one.name in read or one.spec_name not in needless]",
        "if one.spec_name]",
        "a decoder without cross-attention asks for states", ("tests/compiler/test_heads.py",),
    ),
    Mutant(
        "hidden keys in a product", "backends/torch/writer.py",
        "            if axis.ragged and axis.owner is not None:\n                letters",
        "            if False:\n                letters",
        "padding in a sum of products", TORCH_VALUES,
    ),
)  # fmt: skip

FACTS = ("tests/compiler/test_mask_facts.py",)
FOLDED = ("tests/compiler/test_fold_masks.py",)
BOUNDED = ("tests/backends/test_bounded.py",)

MASKS = (
    Mutant(
        "a row does not see its last key", "compiler/masks.py",
        "return Facts((), (others * -1 + constant(1),)) if sign > 0",
        "return Facts((), (others * -1,)) if sign > 0",
        "the diagonal of a causal mask is lost", FACTS,
    ),
    Mutant(
        "any two runs of keys are one", "compiler/masks.py",
        "right.rest is None and _meet(left, right) and _meet(right, left)",
        "right.rest is None",
        "the first keys and a window let through all between", FACTS,
    ),
    Mutant(
        "no row is ever empty", "compiler/masks.py",
        "        if always(settled):\n",
        "        if always(settled) or settled.axes:\n",
        "the guard of an empty row is dropped", FACTS,
    ),
    Mutant(
        "a bound of one text for another", "compiler/masks.py",
        "if made is None or axis.size != key.size or axis.owner != key.owner:",
        "if made is None:",
        "causality by places where lengths differ", (*FACTS, *BOUNDED),
    ),
    Mutant(
        "what is no bound is dropped", "compiler/passes/fold_masks.py",
        '"see": found.rest, "first": first}',
        '"see": None, "first": first}',
        "the tokens' part of a mask is lost", FOLDED,
    ),
    Mutant(
        "one key more than a row sees", "backends/numpy/spans.py",
        "np.arange(cut, width) >= ends",
        "np.arange(cut, width) > ends",
        "the next token is seen", BOUNDED,
    ),
    Mutant(
        "a block begins where its last query does", "backends/numpy/spans.py",
        "max(0, int(block.queries(first).min()))",
        "max(0, int(block.queries(first).max()))",
        "a window that is cut by its block", BOUNDED,
    ),
    Mutant(
        "the other keys are hidden", "backends/numpy/spans.py",
        "return ~see if hidden is None else hidden | ~see",
        "return see if hidden is None else hidden | see",
        "the polarity of a mask", BOUNDED,
    ),
    Mutant(
        "causal attention sees padding", "backends/torch/spans.py",
        "    if keys is None:\n",
        "    if True:\n",
        "a causal flag instead of causal and padding", BOUNDED,
    ),
    Mutant(
        "an empty row is the mean of hidden values", "backends/torch/spans.py",
        "v.masked_fill(gone, 0.0)",
        "v",
        "hidden keys in a row that sees nothing", BOUNDED,
    ),
)  # fmt: skip

DEAD = ("tests/compiler/test_deadness.py",)
ONE = ("tests/compiler/test_one_query.py",)

FELT = (
    Mutant(
        "values of a row that sees nothing", "compiler/passes/deadness.py",
        'return masks.never_empty(see, one["axis"], masks.inhabited(graph, one.axes))',
        'return ""',
        "a bias of values where the weights do not sum to 1", DEAD,
    ),
    Mutant(
        "argmax of what falls", "compiler/passes/deadness.py",
        'GROWING = ("exp", "tanh", "erf")',
        'GROWING = ("exp", "tanh", "erf", "neg")',
        "a function that turns the order round", DEAD,
    ),
    Mutant(
        "a softmax along another axis", "compiler/passes/deadness.py",
        'x.get("axis", axis) == axis',
        "True",
        "argmax of shares of something else", DEAD,
    ),
    Mutant(
        "what two examples share", "compiler/passes/homogeneous.py",
        'return "two examples meet, each with its own factor"',
        "return Fraction(1)",
        "a divisor of each example in a product of two", DEAD,
    ),
    Mutant(
        "a bias over nothing", "compiler/passes/means.py",
        'if kind == "mean" and condition is None:',
        'if kind == "mean":',
        "a mean over nothing is 0", PASSES,
    ),
    Mutant(
        "a bias once in a sum", "compiler/passes/means.py",
        'return ir.apply("*", bias, count)',
        "return bias",
        "a sum counts its bias for each entry", PASSES,
    ),
    Mutant(
        "every token asks", "compiler/passes/one_query.py",
        'return graph.batch in at["query"].axes and not rows and one["axis"].ragged',
        'return graph.batch in at["query"].axes and one["axis"].ragged',
        "keys of the width of the model for every query", ONE,
    ),
    Mutant(
        "a bias of one head for all", "compiler/passes/one_query.py",
        "if any(heads & set(at[role].axes)",
        "if False and any(heads & set(at[role].axes)",
        "heads as queries of one head", ONE,
    ),
)  # fmt: skip

CAUSAL = ("tests/compiler/decoding/test_causality.py",)
STEPS = ("tests/compiler/decoding/test_derive.py",)
WRITTEN = ("tests/backends/test_stepping.py",)

DECODED = (
    Mutant(
        "a row may see the next one", "compiler/decoding/causality.py",
        "greatest(stop - own + constant(-1)) <= 0",
        "greatest(stop - own + constant(-2)) <= 0",
        "a cache of a model that looks ahead", CAUSAL,
    ),
    Mutant(
        "a sum over all rows", "compiler/decoding/causality.py",
        "            if found is None:\n",
        "            if found is None and self.along(one.axes):\n",
        "pooling changes with each token", CAUSAL,
    ),
    Mutant(
        "a mean of rows that do not count", "compiler/decoding/causality.py",
        'SUMS = ("sum", "norm", "any", "count")',
        'SUMS = ("sum", "norm", "any", "count", "mean")',
        "terms of 0 count in a mean", CAUSAL,
    ),
    Mutant(
        "the larger of two places", "compiler/decoding/causality.py",
        'quantifier = any if place["fn"] == "min" else all',
        "quantifier = any",
        "one of two places lies after the row", CAUSAL,
    ),
    Mutant(
        "the length is no matter", "compiler/decoding/causality.py",
        "        if _counts(one, self.length):\n            return Ahead",
        "        if False:\n            return Ahead",
        "rows that change as the text grows", CAUSAL,
    ),
    Mutant(
        "new rows begin at 0", "compiler/decoding/derive.py",
        'return ir.apply("-", ir.size(axis), ir.size(self._axis(axis)))',
        "return ir.widen_to(ir.const(0), (axis.owner,) if axis.owner else ())",
        "top-left causality, positions that begin anew", STEPS,
    ),
    Mutant(
        "layers share their rows", "compiler/decoding/derive.py",
        "ir.append(name, value, self._axis(axis), axis, numbers)",
        "ir.append(name, value, self._axis(axis), axis, [])",
        "one layer reads the keys of another", STEPS,
    ),
    Mutant(
        "all rows are new ones", "compiler/decoding/demand.py",
        "return frozenset(axis for axis in asked if axis in whole or axis not in one.axes)",
        "return frozenset(axis for axis in asked if axis in whole)",
        "attention over the new tokens alone", STEPS,
    ),
    Mutant(
        "a window keeps one row less", "compiler/decoding/windows.py",
        "return far.constant if",
        "return far.constant - 1 if",
        "off by one at the far end of a window", STEPS,
    ),
    Mutant(
        "another layer's window", "compiler/decoding/windows.py",
        "return ir.const(place) if one is number else",
        "return ir.const(0) if one is number else",
        "layers with windows beside layers without", STEPS,
    ),
    Mutant(
        "a pick goes into what is kept", "compiler/passes/demand.py",
        'if one.op in ("append", "keep"):',
        'if one.op in ("keep",):',
        "rows are lost that a later step reads", WRITTEN,
    ),
    Mutant(
        "rows behind those of the longest", "backends/numpy/caching.py",
        "shift = np.arange(examples) * self.room + before - (np.cumsum(lengths) - lengths)",
        "shift = np.arange(examples) * self.room + before.max() - (np.cumsum(lengths) - lengths)",
        "a batch of texts of several lengths", WRITTEN,
    ),
    Mutant(
        "hidden tokens are forgotten", "backends/numpy/caching.py",
        "self.hidden[self.at] = False if hidden is None else hidden",
        "self.hidden[self.at] = False",
        "a hole in a prompt is seen by later tokens", WRITTEN,
    ),
    Mutant(
        "logits in scratch memory", "backends/numpy/stepping.py",
        "text if value.buffer is None else f'np.array({text})'",
        "text",
        "the next step writes over what was returned", WRITTEN,
    ),
    Mutant(
        "examples keep their places", "backends/numpy/caching.py",
        "whole[chosen, :used] if places is None",
        "whole[: len(chosen), :used] if places is None",
        "beams that are taken in another order", WRITTEN,
    ),
    Mutant(
        "bounds of a window that has moved", "backends/numpy/attention.py",
        "keys.shift[some]) if blocks",
        '"") if blocks',
        "keys are counted from the first that is still there", WRITTEN,
    ),
    Mutant(
        "padding among new tokens", "backends/torch/caching.py",
        "self.even and hidden is None and (counts is None or bool((own == self.new).all()))",
        "self.even and hidden is None",
        "keys of padding are seen", WRITTEN,
    ),
    Mutant(
        "causal from the corner", "backends/torch/caching.py",
        "if rows.even and within and not rows.before:",
        "if rows.even and within:",
        "top-left causality when queries and keys differ in number", WRITTEN,
    ),
    Mutant(
        "the last token sees the last key of all", "backends/torch/caching.py",
        "own = (rows.stored - 1)[:, None] if last else rows.at",
        "own = (rows.stored * 0 + rows.keys - 1)[:, None] if last else rows.at",
        "windows of texts of several lengths", WRITTEN,
    ),
    Mutant(
        "another input's length stays as it was", "backends/torch/caching.py",
        "self.held = {length: tuple(one[chosen] for one in places) for length, places in self.held.items()}",
        "pass",
        "examples that are dropped leave their masks", WRITTEN,
    ),
)  # fmt: skip

GENERATED = (
    Mutant(
        "a penalty of the padding", "backends/numpy/choosing.py",
        "seen = search.tokens[row, :length]",
        "seen = search.tokens[row]",
        "what fills a row counts as seen", GENERATION,
    ),
    Mutant(
        "a reward for what is unlikely", "backends/torch/choosing.py",
        "torch.where(old < 0, old * penalty, old / penalty)",
        "old / penalty",
        "a penalty makes negative scores better", CHOOSING,
    ),
    Mutant(
        "an end one token too early", "backends/numpy/choosing.py",
        "np.flatnonzero(made < search.least)",
        "np.flatnonzero(made + 1 < search.least)",
        "min_new_tokens counts from one", CHOOSING,
    ),
    Mutant(
        "draws below the share", "backends/numpy/choosing.py",
        "np.cumsum(shares, axis=1) - shares",
        "np.cumsum(shares, axis=1)",
        "top_p leaves out the token that reaches it", CHOOSING,
    ),
    Mutant(
        "one stream for all rows", "backends/numpy/options.py",
        'Random(f"{seed} {row} {copy}")',
        'Random(f"{seed} {copy}")',
        "all rows draw alike", ("tests/backends/test_generation.py",),
    ),
    Mutant(
        "beams by their sums", "backends/numpy/beams.py",
        'values / made ** options["length_penalty"]',
        "values",
        "short beams win", GENERATION,
    ),
    Mutant(
        "a beam that ended goes on", "backends/torch/beams.py",
        "values = values + LOST * ended",
        "values = values + 0 * ended",
        "tokens after the end", GENERATION,
    ),
    Mutant(
        "the cache of another beam", "backends/numpy/beams.py",
        "search.take((stay[:, None] * beams + beam[stay]).reshape(-1))",
        "search.take((stay[:, None] * beams + np.sort(beam[stay])).reshape(-1))",
        "beams change places and their caches do not", GENERATION,
    ),
    Mutant(
        "rows that have ended stay", "backends/torch/generation.py",
        "            search.take(going)\n",
        "",
        "the next token of another row", GENERATION,
    ),
)  # fmt: skip

KINDS = ("tests/compiler/test_steps.py",)
ZOO_KINDS = (f"{NUMPY_VALUES[0]}[kinds]",)
ZOO_RUNS = (f"{NUMPY_VALUES[0]}[runs]",)

CHOSEN = (
    Mutant(
        "what both sides need is one side's", "compiler/steps.py",
        "while any(other[:length] != first[:length] for other in others):",
        "while False:",
        "a value is computed in one branch and read in both", KINDS,
    ),
    Mutant(
        "the sides are changed", "backends/numpy/branching.py",
        "writer.sides[selection][side - 1].append(one)",
        "writer.sides[selection][2 - side].append(one)",
        "the lines of one branch stand in the other", ZOO_KINDS,
    ),
    Mutant(
        "the wrong kind of layer has the mask", "compiler/passes/fold_masks.py",
        "for known in (True, False):",
        "for known in (False, True):",
        "full layers look through the window", KINDS,
    ),
    Mutant(
        "a state in memory that is used again", "backends/numpy/loops.py",
        "value.buffer is not None or branching.is_selected(writer, part):",
        "value.buffer is not None:",
        "the next step writes over what a branch left", ZOO_KINDS,
    ),
    Mutant(
        "memory of a branch is free too early", "backends/numpy/packed.py",
        "        flows |= set(self.sides)",
        "        flows |= set()",
        "what comes after a branch writes over its result", (*ZOO_KINDS, *FUZZ),
    ),
    Mutant(
        "a slice beyond its axis", "backends/numpy/slices.py",
        "return 0 <= first < key.size and 0 <= first + step * (count - 1) < key.size",
        "return 0 <= first < key.size",
        "places that are not there", ZOO_RUNS,
    ),
    Mutant(
        "a diagonal is a slice", "backends/numpy/slices.py",
        "if len(set(made)) == len(made) and not kept.intersection(made) else None",
        "if len(set(made)) == len(made) else None",
        "x[d = index(head)] of a value of each head", ZOO_RUNS,
    ),
    Mutant(
        "below a product with its bias all is text", "backends/torch/writer.py",
        "        return super()._enter(one) or (one in self.absorbed and one not in self.memo)",
        "        return super()._enter(one)",
        "lines stand in another order, and no longer below their formulas", ("tests/backends/test_golden.py",),
    ),
    Mutant(
        "a product with any side of a table", "backends/torch/weights.py",
        """        return own[1:], own[:1]
""",
        """        return own[:1], own[1:]
""",
        "a table of two axes is a matrix for whoever sums over its last one", ("tests/backends/test_golden.py",),
    ),
    Mutant(
        "weights of another order under gradients", "backends/torch/caching.py",
        'plain = x.device.type != "cpu" or x.dtype != torch.float32 or torch.is_grad_enabled()',
        'plain = x.device.type != "cpu" or x.dtype != torch.float32',
        "a copy has no gradient", ("tests/backends/torch/test_caching.py",),
    ),
    Mutant(
        "counting starts at 0 in the file", "backends/numpy/weights.py",
        "str(i + int(found[1] or 0))",
        "str(i)",
        "a stack whose first entry has another block", ("tests/compiler/test_checkpoint_map.py",),
    ),
)  # fmt: skip

CORRUPTED = (
    Mutant(
        "special tokens are hit", "specs/lib/corruptions.formula",
        "rate) = free and bernoulli[seq](rate)", "rate) = bernoulli[seq](rate)",
        "[CLS] becomes the mask", PROPERTIES,
    ),
    Mutant(
        "tokens of a word are hit one by one", "specs/lib/corruptions.formula",
        "[seq = running[seq](1 if begins else 0) - 1]", "",
        "half a word is masked", PROPERTIES,
    ),
    Mutant(
        "no gap behind the last token", "specs/lib/corruptions.formula",
        "randint[seq](0, n - m + 1)", "randint[seq](0, n - m)",
        "nothing is ever inserted at the end", PROPERTIES,
    ),
    Mutant(
        "spans of no token are left out", "specs/lib/corruptions.formula",
        "used   = before[seq](drawn) < wanted", "used   = before[seq](drawn) < wanted and drawn > 0",
        "an infilling that inserts nothing", PROPERTIES,
    ),
    Mutant(
        "the last span is not cut", "specs/lib/corruptions.formula",
        "size   = min(drawn, wanted - before[seq](drawn)) if used else 0", "size   = drawn if used else 0",
        "more tokens go than the rate says", PROPERTIES,
    ),
    Mutant(
        "masks stand before [CLS]", "specs/lib/corruptions.formula",
        "own    = 2 * stay + 1 if free else 2 * stay if number[seq](free) < n else 2 * (n - m) + 2",
        "own    = 2 * stay + 1",
        "special tokens move", PROPERTIES,
    ),
    Mutant(
        "a text may begin with noise", "specs/lib/corruptions.formula",
        "first = 2 * running[seq](1 if early else 0) + 1", "first = 2 * running[seq](1 if early else 0)",
        "two runs of noise meet", PROPERTIES,
    ),
    Mutant(
        "a rate is rounded down", "specs/lib/corruptions.formula",
        "at_random(x) = floor(x) + (1 if bernoulli(x - floor(x)) else 0)", "at_random(x) = floor(x)",
        "short texts are never corrupted", PROPERTIES,
    ),
    Mutant(
        "each stop is an end", "specs/lib/corruptions.formula",
        "closes = e == 1 and e[some = index(some) + 1 else 0] == 0", "closes = e == 1",
        "... is three sentences", PROPERTIES,
    ),
    Mutant(
        "no end of sentinels", "specs/lib/corruptions.formula",
        "gone and running[seq](1 if starts[seq](gone) else 0) ≤ most", "gone",
        "sentinels run into the words", PROPERTIES,
    ),
    Mutant(
        "an example is its row", "backends/numpy/corrupting.py",
        '+ ["example"] * (self.batch in one.axes)', '+ ["0"] * (self.batch in one.axes)',
        "all texts are corrupted alike", CORRUPTING,
    ),
    Mutant(
        "hidden tokens are part of a text", "backends/numpy/drawing.py",
        "        return [np.flatnonzero(one) for one in real]", "        return [np.arange(len(one)) for one in real]",
        "padding moves draws", CORRUPTING,
    ),
    Mutant(
        "bits move in with their sign", "backends/torch/drawing.py",
        "    return (x >> by) & kept", "    return (x >> by) | (kept & 0)",
        "another generator than NumPy's", CORRUPTING,
    ),
    Mutant(
        "numbers become single precision", "backends/torch/corrupting.py",
        '.get(one.kind, "torch.float64")', '.get(one.kind, "torch.float32")',
        "a rate of 0.3 is another one", CORRUPTING,
    ),
    Mutant(
        "rates may be anything", "compiler/corruptions.py",
        'if one.op == "random" and one["draw"] == "bernoulli":', 'if one.op == "random" and one["draw"] == "none":',
        "a rate of 1.5 is taken", ("tests/compiler/test_lengths.py", *CORRUPTING),
    ),
    Mutant(
        "draws are made in single precision", "backends/numpy/drawing.py",
        "np.uint64(12)).astype(np.float64)", "np.uint64(12)).astype(np.float32)",
        "draws collide", CORRUPTING,
    ),
    Mutant(
        "two new lengths of one name are one", "compiler/lengths.py",
        "    return Axis(name, Length(name, made=ir.owned(count, like)), like.owner)",
        "    return Axis(name, Length(name, made=ir.size(like)), like.owner)",
        "texts of different lengths meet", LENGTHS,
    ),
    Mutant(
        "entries beyond an example are sorted in", "compiler/evaluate.py",
        "        value = args[0] if seen is None else np.where(align(seen[0], seen[1], one.axes), args[0], np.inf)",
        "        value = args[0]",
        "padding is sorted with the text", LENGTHS,
    ),
    Mutant(
        "models make new lengths", "compiler/lengths.py",
        '    if scope.session.whole in ("model", "objective"):\n        raise', '    if False:\n        raise',
        "no backend runs it", LENGTHS,
    ),
)  # fmt: skip

OBJECTIVES = ("tests/compiler/test_objectives.py",)
OBJECTIVES_TORCH = ("tests/backends/torch/test_objective.py",)
OBJECTIVES_NUMPY = ("tests/backends/numpy/test_objective.py",)
SUMMED = (
    Mutant(
        "a mean of means", "compiler/objectives.py",
        'ir.reduce("count", every, one["over"])',
        "ir.const(1)",
        "parts of a batch with other numbers of tokens weigh the same", OBJECTIVES,
    ),
    Mutant(
        "in-batch negatives add up", "compiler/objectives.py",
        "if any(axis.size == batch.size and axis != batch for axis in part.axes) or batch in over:",
        "if False:",
        "a batch that is cut has other negatives", OBJECTIVES,
    ),
    Mutant(
        "texts of an example are mixed up", "compiler/objectives.py",
        'ir.apply("*", ir.index(batch), ir.size(each))',
        "ir.index(batch)",
        "the texts of other examples", OBJECTIVES,
    ),
    Mutant(
        "places that a mask hides are selected", "compiler/evaluate.py",
        "            condition = condition & align(seen[0], seen[1], among)",
        "            pass",
        "labels at padding are counted", OBJECTIVES,
    ),
    Mutant(
        "logits in pieces that somebody reads", "compiler/passes/chunk.py",
        "if context.readers(logits) > 1:",
        "if False:",
        "logits are made twice", OBJECTIVES,
    ),
    Mutant(
        "what is kept for one gradient is written over", "backends/torch/chunked.py",
        "            z = z * scale",
        "            z = z.mul_(scale)",
        "a second backward through one graph", OBJECTIVES_TORCH,
    ),
    Mutant(
        "the label's share of a smoothed loss", "backends/torch/chunked.py",
        "(ctx.smoothing - 1) * scale",
        "-scale",
        "label smoothing has the gradient of a plain loss", OBJECTIVES_TORCH,
    ),
    Mutant(
        "a compiled graph counts copies", "backends/torch/functions.py",
        "return at // see.shape[1], at % see.shape[1], flat",
        "return at // see.shape[1], at % see.shape[1], torch.ones_like(flat)",
        "copies of the first row that counts are counted", OBJECTIVES_TORCH,
    ),
    Mutant(
        "draws by the place in the padded batch", "backends/torch/objective.py",
        "        if axis.counted:",
        "        if False:",
        "padding on the left changes what is drawn", OBJECTIVES_TORCH,
    ),
    Mutant(
        "all pieces at once", "backends/numpy/chunked.py",
        "step = max(1, (most or LOGITS) // max(1, count))",
        "step = max(1, len(x))",
        "the logits of all rows are in memory", OBJECTIVES_NUMPY,
    ),
    Mutant(
        "a number that is asked for is no point", "compiler/passes/probe.py",
        'if not any(one.op == "map" and one["fn"] in ("==", "!=") for one in region.inside):',
        "if True:",
        "a marker is taken for any other number", ("tests/compiler/test_lookalikes.py",),
    ),
)  # fmt: skip

SLOPES = ("tests/compiler/differentiation/test_slopes.py", "tests/compiler/differentiation/test_rules.py")
BACK = ("tests/backends/numpy/test_gradients.py",)
ROWS = (
    Mutant(
        "hidden tokens have no rows", "compiler/making.py",
        "axis=axis, into=into, hidden=True)",
        "axis=axis, into=into)",
        "a token that is masked is read at its own place", PACKED,
    ),
    Mutant(
        "rows of a table are those of its reader", "compiler/passes/pack.py",
        "        return [(arg, rows if demand.inner_rows(one, arg, at) else None) for arg in one.args]",
        "        return [(arg, rows) for arg in one.args]",
        "an axis that is picked along is no axis of the rows", PACKED,
    ),
    Mutant(
        "a loop over a length carries rows", "compiler/passes/pack.py",
        '        if one.args[one["slots"]].axes:\n            return\n',
        "",
        "examples that have ended go on", PACKED,
    ),
    Mutant(
        "places of all owners bound a row", "compiler/differentiation/rules.py",
        "            size = ir.pick(size, {key.owner: at[key.owner]})",
        "            size = ir.pick(size, {key.owner: ir.const(0)})",
        "the first example's length for all", ("tests/compiler/differentiation/test_rules.py", *PACKED),
    ),
    Mutant(
        "a batch of other lengths is a view", "backends/numpy/results.py",
        "    if len(rows) == x.shape[0] * x.shape[1]:",
        "    if len(rows) >= x.shape[1]:",
        "rows that are not all there", PACKED,
    ),
    Mutant(
        "rows of a compiled graph are the real ones", "backends/torch/functions.py",
        "    if not torch.compiler.is_compiling():\n        order =",
        "    if True:\n        order =",
        "a graph does not know how many they are", ("tests/backends/torch/test_objective.py", *PACKED),
    ),
    Mutant(
        "runs are of the first length", "backends/torch/tokens.py",
        "        runs.append((row, counts.count(length), length))",
        "        runs.append((row, counts.count(length), counts[0]))",
        "attention beyond an example", PACKED,
    ),
    Mutant(
        "a window is one key short", "backends/torch/tokens.py",
        "        first = None if before is None else at - before",
        "        first = None if before is None else at - before + 1",
        "the first key that is seen", PACKED,
    ),
    Mutant(
        "dropped shares flow back", "backends/numpy/attending.py",
        "                pairs_of(flow, Q, lot)[...] *= of_pairs(kept, lot)\n",
        "",
        "the mask of the forward is forgotten", ATTENDED,
    ),
    Mutant(
        "the first example's relation for all", "backends/numpy/attending.py",
        "    own: NDArray[Any] = relation[example if len(relation) > 1 else 0]",
        "    own: NDArray[Any] = relation[0]",
        "what is added differs from example to example", ATTENDED,
    ),
    Mutant(
        "the slope of scores without their scale", "backends/numpy/attending.py",
        "            if scale != 1:\n                flow *= scale\n",
        "",
        "too steep by the root of the width", ATTENDED,
    ),
    Mutant(
        "what flows to hidden keys", "compiler/kernels.py",
        '        return ir.where(ir.visible(axis), made, number(0)) if axis.counted else made\n    flow',
        "        return made\n    flow",
        "a hidden key's value has a gradient", ("tests/compiler/differentiation/test_rules.py", *ATTENDED),
    ),
)

DIFFERENTIATED = (
    Mutant(
        "what has no number passes it on", "compiler/differentiation/rules.py",
        "            sweep.flow(arg, safe(g, made) if guarded else made)",
        "            sweep.flow(arg, made)",
        "0 · ∞ of a branch that is not selected", SLOPES,
    ),
    Mutant(
        "hidden entries get a gradient of a sum", "compiler/differentiation/rules.py",
        "*seen_along(over, ir.union(one.args)), *((condition,)",
        "*(), *((condition,)",
        "a mask that the backward forgets", SLOPES,
    ),
    Mutant(
        "hidden entries are left out of a weight's gradient", "compiler/differentiation/sweep.py",
        "        return ir.total(values, over)",
        '        return ir.reduce("sum", values[0] if len(values) == 1 else ir.apply("*", *values), over)',
        "what a shifted label reads at a hole", SLOPES,
    ),
    Mutant(
        "a second reader replaces the first", "compiler/differentiation/sweep.py",
        "        self.adjoints[arg] = g if old is None else add(old, g)",
        "        self.adjoints[arg] = g",
        "tied weights, residuals", SLOPES,
    ),
    Mutant(
        "a loop's backward takes the forward's step", "compiler/differentiation/loops.py",
        "        self.step = ir.apply(\"-\", last, ir.counter(self.ident))",
        "        self.step = ir.counter(self.ident)",
        "layers in the wrong order", SLOPES,
    ),
    Mutant(
        "texts of a loop over a length share a sum", "compiler/differentiation/loops.py",
        "    inside.keep = (*sweep.keep, *(a for a in made.stop.axes if a not in sweep.keep))",
        "    inside.keep = sweep.keep",
        "a loop over a length of texts of different lengths", BACK,
    ),
    Mutant(
        "the last state is kept for the one after", "compiler/differentiation/recalling.py",
        '        return self._state(self.loop["slots"] + _place(more, one), one, after)',
        '        return self._state(self.loop["slots"] + _place(more, one), one, self.step)',
        "the backward reads another layer's values", SLOPES,
    ),
    Mutant(
        "a dropout of its own backwards", "compiler/differentiation/rules.py",
        'one.axes, "real", **one.attrs)\n    sweep.forward.add(mask)',
        'one.axes, "real", **{**one.attrs, "site": "back"})\n    sweep.forward.add(mask)',
        "the mask of the backward is not that of the forward", SLOPES,
    ),
    Mutant(
        "stop is passed", "compiler/differentiation/scalars.py",
        '    "stop": (None,),',
        '    "stop": (lambda g, x, y: g,),',
        "ELECTRA's generator would learn from its critic", SLOPES,
    ),
    Mutant(
        "the label has no gradient", "compiler/differentiation/meanings.py",
        '    yield "x", sub(made, ir.scatter(own, {axis: label}, ir.union((x, own))))',
        '    yield "x", made',
        "cross-entropy without its own logit", BACK,
    ),
    Mutant(
        "what is picked twice counts once", "backends/numpy/gradients.py",
        "    starts = np.flatnonzero(np.concatenate([[True], at[1:] != at[:-1]]))",
        "    starts = np.arange(len(at))",
        "fancy assignment keeps the last of equal indices", BACK,
    ),
    Mutant(
        "ignored labels take a place", "backends/numpy/gradients.py",
        "        x[tuple(places)] += np.where(good, values, 0)",
        "        x[tuple(np.where(good, place, 0) for place in places)] += np.where(good, values, 0)",
        "-100 overwrites what the first label adds", BACK,
    ),
    Mutant(
        "a value is overwritten that somebody reads", "backends/numpy/gradient_writer.py",
        "        if value.dims == dims and (own or self.overwritten(arg, value, by)):",
        "        if value.dims == dims:",
        "in place, though the memory is another's", BACK,
    ),
    Mutant(
        "a part of a value is memory of its own", "backends/numpy/scheduled.py",
        "        return not any(place.axes for place in one.args[1:])",
        "        return False",
        "a view taken for a copy", ("tests/backends/numpy/test_scheduled.py",),
    ),
    Mutant(
        "an argument is written over that is another one, too", "backends/numpy/scheduled.py",
        "        if again or not self._is_over(owner, by):",
        "        if not self._is_over(owner, by):",
        "two arguments in one memory", ("tests/backends/numpy/test_scheduled.py",),
    ),
    Mutant(
        "results are let go", "backends/numpy/scheduled.py",
        "        self._note(NEVER, roots)",
        "        self._note(NEVER, ())",
        "what is read after the last line", ("tests/backends/numpy/test_scheduled.py", *BACK),
    ),
    Mutant(
        "a single number is no view", "backends/numpy/gradients.py",
        "        return array.reshape(-1)[first : first + 1].reshape(())",
        "        return np.array(whole)",
        "the bias of a detector is never trained", BACK,
    ),
)  # fmt: skip

TRAINED = (
    Mutant(
        "the start at zero counts in the first steps", "backends/numpy/adamw.py",
        "s *= rate / (1 - beta**self.count)",
        "s *= rate",
        "the first steps are too small", ADAMW,
    ),
    Mutant(
        "decay beside the rate", "backends/numpy/adamw.py",
        "w *= 1 - rate * self.decay",
        "w *= 1 - self.decay",
        "weights shrink in warm-up", ADAMW,
    ),
    Mutant(
        "small gradients are made larger", "backends/numpy/adamw.py",
        "min(1.0, self.clip / (norm + 1e-6))",
        "self.clip / (norm + 1e-6)",
        "clipping sets a norm", ADAMW,
    ),
    Mutant(
        "the last piece's gradient alone", "backends/numpy/chunked.py",
        "of_table += np.matmul(z.T, x[part])",
        "np.matmul(z.T, x[part], out=of_table)",
        "the gradient of a table in pieces", OBJECTIVES_NUMPY,
    ),
    Mutant(
        "the label of a smoothed loss under NumPy", "backends/numpy/chunked.py",
        "np.where(there, (1 - smoothing) * g, 0)",
        "np.where(there, g, 0)",
        "label smoothing has the gradient of a plain loss", OBJECTIVES_NUMPY,
    ),
    Mutant(
        "totals that nobody reads", "compiler/training.py",
        'given = ir.input_(TOTALS, (axis,), "real", counts.node)',
        "given = counts.node",
        "parts of a batch weigh alike", FITS,
    ),
    Mutant(
        "a row that is there is written over", "backends/numpy/gradients.py",
        "y[at[starts]] += rows if",
        "y[at[starts]] = rows if",
        "a tied table loses the gradient of its head", FITS,
    ),
    Mutant(
        "the last part alone", "backends/numpy/fitting.py",
        "self.gradients[name] += own",
        "self.gradients[name] = own",
        "accumulation forgets", FITS,
    ),
    Mutant(
        "weights as they were", "backends/numpy/fitting.py",
        "if not self.fresh:",
        "if False:",
        "what is held out is measured with the first weights", FITS,
    ),
)  # fmt: skip

MUTANTS = (
    *(*ALGEBRA, *RECOGNITION, *ATTENTION, *FUSION, *PUSHED, *NUMPY, *TORCH, *MASKS, *FELT, *DECODED),
    *(*GENERATED, *CHOSEN, *CORRUPTED, *SUMMED, *ROWS, *DIFFERENTIATED, *TRAINED),
)
"""All of them."""
