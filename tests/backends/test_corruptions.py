"""The corruptions of the page and the papers: what each may change, how often, and what must stay."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from transformula.backends.program import compile as compile_program

Array = npt.NDArray[Any]
CLS, SEP, MASK, PAD = 101, 102, 103, 0
FIRST = 900  # the first sentinel
LABEL_NONE = -100

ALL = {
    "masking": ("bert", {"mask_token_id": MASK}),
    "token_masking": ("bart", {"mask_token_id": MASK}),
    "token_deletion": ("bart", {}),
    "text_infilling": ("bart", {"mask_token_id": MASK}),
    "sentence_permutation": ("bart", {}),
    "document_rotation": ("bart", {}),
    "replaced_tokens": ("electra", {}),
    "span_corruption": ("t5", {"sentinel_token_id": FIRST}),
}
RATE = {
    "masking": "mlm_probability",
    "token_masking": "mask_probability",
    "token_deletion": "delete_probability",
    "text_infilling": "mask_probability",
    "replaced_tokens": "replace_probability",
    "span_corruption": "noise_density",
}


@cache
def corruption(spec: str, name: str) -> Any:
    return compile_program(spec, "numpy", entry=name).corrupt


def texts(counts: list[int], inner: bool = False) -> tuple[Array, Array, Array]:
    """[CLS] 1000 1001 … [SEP] of some lengths, the mask, and which tokens are special; `inner`: others, too."""
    width = max(counts, default=0) + 2
    ids = np.full((len(counts), width), PAD)
    for row, count in enumerate(counts):
        ids[row, : count + 2] = [CLS, *range(1000, 1000 + count), SEP]
    if inner:
        ids[:, 3:-2:5] = np.where(ids[:, 3:-2:5] >= 1000, SEP, ids[:, 3:-2:5])
    return ids, (ids != PAD).astype(int), (ids < 1000).astype(int)


def run(name: str, ids: Array, mask: Array, special: Array, **more: Any) -> dict[str, Array]:
    spec, needed = ALL[name]
    given = {"input_ids": ids, "attention_mask": mask, "special_tokens_mask": special, **needed, **more}
    if name == "sentence_permutation" and "sentence_end_mask" not in given:
        given["sentence_end_mask"] = (ids % 7 == 0).astype(int)
    made: dict[str, Array] = corruption(spec, name)(**given)
    return made


def row_of(found: dict[str, Array], row: int, name: str = "input_ids", mask: str = "attention_mask") -> list[int]:
    """A text of a result, without padding."""
    kept: list[int] = found[name][row][found[mask][row] == 1].tolist()
    return kept


COUNTS = [0, 1, 2, 3, 30, 17, 64, 5]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("inner", [False, True])
def test_special_tokens_stay_as_they_are_and_in_their_order(name: str, inner: bool) -> None:
    ids, mask, special = texts(COUNTS, inner)
    for seed in range(6):
        rate = {RATE[name]: (0.15, 0.6, 1.0)[seed % 3]} if name in RATE else {}
        found = run(name, ids, mask, special, seed=seed, **rate)
        for row in range(len(ids)):
            before = ids[row][(mask[row] == 1) & (special[row] == 1)].tolist()
            made = row_of(found, row)
            assert made[0] == CLS
            assert made[-1] == SEP
            assert [one for one in made if one in (CLS, SEP)] == before or name in ("masking", "replaced_tokens")
            if len(made) == mask[row].sum():  # of the same length: each at its place
                kept = special[row][mask[row] == 1] == 1
                if name not in ("text_infilling", "span_corruption"):
                    assert (np.array(made)[kept] == before).all()


@pytest.mark.parametrize("name", ALL)
def test_the_same_seed_gives_the_same_and_another_one_another(name: str) -> None:
    ids, mask, special = texts([40] * 4)
    one, same, other = (run(name, ids, mask, special, seed=seed) for seed in (1, 1, 2))
    for key, value in one.items():
        np.testing.assert_array_equal(value, same[key])
    assert any(row_of(one, row) != row_of(other, row) for row in range(4))
    assert len({tuple(row_of(one, row)) for row in range(4)}) > 1, "each text draws anew"


@pytest.mark.parametrize("name", ALL)
def test_a_text_depends_on_nothing_around_it(name: str) -> None:
    """Alone, in another order, with padding on the left, with hidden places between: by its number it is the same."""
    ids, mask, special = texts(COUNTS, inner=True)
    whole = run(name, ids, mask, special, seed=5)
    order = np.array([6, 2, 4])
    some = run(name, ids[order], mask[order], special[order], seed=5, example=order)
    wide = np.zeros((len(ids), 2 * ids.shape[1] + 3), int)
    at = 3 + 2 * np.arange(ids.shape[1])  # every other place is hidden, and the first three
    spread = [wide.copy() for _ in range(3)]
    for new, old in zip(spread, (ids, mask, special), strict=True):
        new[:, at] = old
    spread[0][spread[1] == 0] = 777
    ends = {"sentence_end_mask": (spread[0] % 7 == 0).astype(int)} if name == "sentence_permutation" else {}
    apart = run(name, spread[0], spread[1], spread[2], seed=5, **ends)
    for row in range(len(ids)):
        assert row_of(apart, row) == row_of(whole, row)
    for place, row in enumerate(order):
        alone = run(name, ids[[row]], mask[[row]], special[[row]], seed=5, example=int(row))
        assert row_of(some, place) == row_of(whole, row) == row_of(alone, 0)
        assert (alone["labels"][0][alone["labels"][0] != LABEL_NONE]).tolist() == (
            whole["labels"][row][whole["labels"][row] != LABEL_NONE]
        ).tolist()


@pytest.mark.parametrize("name", RATE)
def test_a_rate_of_nothing_changes_nothing(name: str) -> None:
    ids, mask, special = texts(COUNTS)
    found = run(name, ids, mask, special, **{RATE[name]: 0})
    for row in range(len(ids)):
        assert row_of(found, row) == ids[row][mask[row] == 1].tolist()


@pytest.mark.parametrize("name", ALL)
def test_texts_of_special_tokens_alone_stay(name: str) -> None:
    ids = np.array([[CLS, SEP, SEP, PAD], [CLS, PAD, PAD, PAD], [PAD] * 4])
    mask = (ids != PAD).astype(int)
    found = run(name, ids, mask, np.ones_like(ids), **({RATE[name]: 1} if name in RATE else {}))
    for row in range(3):
        assert row_of(found, row) == ids[row][mask[row] == 1].tolist()


def share(hits: int, of: int, rate: float) -> bool:
    """Whether a share is met within 5 standard deviations (a fixed seed: once and for all)."""
    return bool(abs(hits - rate * of) < 5 * np.sqrt(of * rate * (1 - rate)) + 1e-9)


def test_masking_meets_its_rates() -> None:
    """15 in 100 candidates are hit; of these 80 in 100 become the mask, 10 another token, 10 stay."""
    ids, mask, special = texts([400] * 60)
    found = run("masking", ids, mask, special, seed=11)
    hit, new = found["labels"] != LABEL_NONE, found["input_ids"]
    count, hits = int((special == 0).sum()), int(hit.sum())
    assert share(hits, count, 0.15)
    assert (found["labels"][hit] == ids[hit]).all()
    assert (new[~hit] == ids[~hit]).all()
    masks, stay = int((new[hit] == MASK).sum()), int((new[hit] == ids[hit]).sum())
    assert share(masks, hits, 0.8)
    assert share(stay, hits, 0.1)
    others = new[hit][(new[hit] != MASK) & (new[hit] != ids[hit])]
    assert others.min() >= 0
    assert others.max() < 30522
    assert abs(others.mean() / 30522 - 0.5) < 0.05


def test_electra_masks_or_keeps() -> None:
    """85 in 100 become the mask, the rest stays, as in the authors' code."""
    ids, mask, special = texts([400] * 20)
    found = corruption("electra", "masking")(
        input_ids=ids, attention_mask=mask, special_tokens_mask=special, mask_token_id=MASK
    )
    hit, new = found["labels"] != LABEL_NONE, found["input_ids"]
    assert set(new[hit & (new != ids)]) == {MASK}
    assert share(int((new[hit] == MASK).sum()), int(hit.sum()), 0.85)


def test_words_are_masked_as_wholes() -> None:
    ids, mask, special = texts([300] * 30)
    words = np.arange(ids.shape[1])[None].repeat(30, 0) // 3
    found = run("masking", ids, mask, special, word_ids=words, mlm_probability=0.3, random_replace_prob=0.0, seed=2)
    hit = (found["labels"] != LABEL_NONE) | (special == 1)
    inner = hit[:, 3:300].reshape(30, -1, 3)
    assert (inner.all(-1) | ~inner.any(-1)).all()
    assert share(int(inner[..., 0].sum()), inner[..., 0].size, 0.3)


@pytest.mark.parametrize("name", ["token_masking", "token_deletion", "replaced_tokens"])
def test_each_candidate_is_hit_at_its_rate(name: str) -> None:
    ids, mask, special = texts([200] * 50)
    found = run(name, ids, mask, special, seed=3, **{RATE[name]: 0.3})
    count = int((special == 0).sum())
    if name == "token_deletion":
        hits = int(mask.sum() - found["attention_mask"].sum())
    else:
        hits = int((found["input_ids"] != ids).sum())
    assert share(hits, count, 0.3)


def test_what_is_left_of_a_deletion_is_in_order() -> None:
    ids, mask, special = texts(COUNTS)
    found = run("token_deletion", ids, mask, special, delete_probability=0.5, seed=1)
    for row, count in enumerate(COUNTS):
        made = row_of(found, row)[1:-1]
        assert made == sorted(made)
        assert set(made) <= set(range(1000, 1000 + count))
        assert found["labels"][row][mask[row] == 1].tolist() == ids[row][mask[row] == 1].tolist()
    nothing = run("token_deletion", ids, mask, special, delete_probability=1)
    assert [row_of(nothing, row) for row in range(len(ids))] == [[CLS, SEP]] * len(ids)


def test_infilling_hides_a_share_of_the_tokens_in_spans() -> None:
    """30 in 100 tokens go, in spans of 3 on average; as many masks come, one of 20 for a span of no token."""
    ids, mask, special = texts([300] * 60)
    found = run("text_infilling", ids, mask, special, seed=4)
    kept = [[one for one in row_of(found, row) if one >= 1000] for row in range(60)]
    masks = np.array([row_of(found, row).count(MASK) for row in range(60)])
    assert all(one == sorted(one) and len(set(one)) == len(one) for one in kept)
    gone = 300 - np.array([len(one) for one in kept])
    assert (np.abs(gone - 90) <= 1).all(), "as many as it takes, and no more"
    drawn = gone.sum() / masks.sum()  # the last span is cut to fit, which makes the mean a little shorter
    assert 2.7 < drawn < 3.05
    assert row_of(found, 0)[0] == CLS
    assert row_of(found, 0)[-1] == SEP


def test_spans_are_poisson_numbers() -> None:
    """The lengths of runs between kept neighbours follow P(k) = λ^k e^-λ / k!, zero-length spans included."""
    ids, mask, special = texts([4000] * 4)
    found = run("text_infilling", ids, mask, special, mask_probability=0.1, seed=9)
    lengths: list[int] = []
    for row in range(4):
        made, at = row_of(found, row)[1:-1], 0
        while at < len(made):
            if made[at] == MASK and (at + 1 == len(made) or made[at + 1] != MASK) and (at == 0 or made[at - 1] != MASK):
                before = made[at - 1] if at else 999
                after = made[at + 1] if at + 1 < len(made) else 5000
                lengths.append(after - before - 1)
            at += 1
    count = len(lengths)
    assert count > 300
    wanted = [np.exp(-3) * 3.0**k / np.prod(np.arange(1, k + 1)) for k in range(8)]
    for k, p in enumerate(wanted):
        assert abs(lengths.count(k) - p * count) < 5 * np.sqrt(count * p * (1 - p))
    assert 0 in lengths


def test_a_span_may_stand_anywhere() -> None:
    """One of four tokens goes: before, between and behind the three that stay, each as likely."""
    ids, mask, special = texts([4] * 1000)
    found = run("text_infilling", ids, mask, special, mask_probability=0.25, poisson_lambda=30, seed=2)
    counts = np.bincount((found["input_ids"] == MASK).argmax(1), minlength=5)
    assert counts[0] == 0
    assert (np.abs(counts[1:] - 250) < 5 * np.sqrt(250)).all()


def test_everything_hidden_is_masks_alone() -> None:
    ids, mask, special = texts(COUNTS)
    found = run("text_infilling", ids, mask, special, mask_probability=1, seed=2)
    for row, count in enumerate(COUNTS):
        made = row_of(found, row)[1:-1]
        kept = [one for one in made if one != MASK]
        assert len(kept) <= (0 if count > 3 else count)  # a short text may draw nothing but empty spans
        assert (MASK in made) == (count > 0)


def test_a_permutation_keeps_the_sentences() -> None:
    ids, mask, special = texts([60] * 12)
    ends = np.isin(ids, [1006, 1007, 1008, 1020, 1041]).astype(int)  # the first three are one end
    sentences = [(1000, 1009), (1009, 1021), (1021, 1042), (1042, 1060)]
    found = run("sentence_permutation", ids, mask, special, sentence_end_mask=ends, seed=1)
    orders = set()
    for row in range(12):
        made = row_of(found, row)[1:-1]
        firsts = [made.index(first) for first, _ in sentences]
        for (first, last), at in zip(sentences, firsts, strict=True):
            assert made[at : at + last - first] == list(range(first, last))
        assert sorted(made) == list(range(1000, 1060))
        orders.add(tuple(np.argsort(firsts)))
    assert len(orders) > 6


def test_every_order_of_sentences_is_as_likely() -> None:
    ids, mask, special = texts([3] * 1200)
    found = run("sentence_permutation", ids, mask, special, sentence_end_mask=(ids >= 1000).astype(int), seed=1)
    # a row of ends is one end: the three tokens are one sentence, and nothing moves
    assert (found["input_ids"] == ids).all()
    ids, mask, special = texts([6] * 1200)
    ends = np.isin(ids, [1001, 1003]).astype(int)
    found = run("sentence_permutation", ids, mask, special, sentence_end_mask=ends, seed=1)
    counts = np.unique(found["input_ids"][:, 1:7:2], axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert (np.abs(counts - 200) < 5 * np.sqrt(200)).all()


def test_a_rotation_begins_anywhere() -> None:
    ids, mask, special = texts([10] * 1000)
    found = run("document_rotation", ids, mask, special, seed=6)
    begins = found["input_ids"][:, 1] - 1000
    assert (np.abs(np.bincount(begins, minlength=10) - 100) < 5 * np.sqrt(100)).all()
    for row in range(10):
        first = begins[row]
        assert row_of(found, row)[1:-1] == [*range(1000 + first, 1010), *range(1000, 1000 + first)]


def test_inputs_and_targets_make_up_the_text() -> None:
    """Each sentinel of the input stands for what follows it in the target; the target ends with one more."""
    for inner in (False, True):
        ids, mask, special = texts([0, 1, 2, 3, 40, 100, 250], inner)
        for seed in range(8):
            found = run("span_corruption", ids, mask, special, seed=seed, noise_density=(0.15, 0.5)[seed % 2])
            for row in range(len(ids)):
                made, target = row_of(found, row), row_of(found, row, "labels", "decoder_attention_mask")
                assert target[-1] == 1
                runs: dict[int, list[int]] = {}
                for one in target[:-1]:
                    if FIRST - 100 < one <= FIRST:
                        runs[one] = []
                    else:
                        runs[next(reversed(runs))].append(one)
                assert list(runs) == list(range(FIRST, FIRST - len(runs), -1))
                assert runs[min(runs)] == []
                whole = [token for one in made for token in (runs.get(one, [one]))]
                assert whole == ids[row][mask[row] == 1].tolist()
                assert all(runs[one] for one in list(runs)[:-1])


def test_spans_of_t5_meet_their_rate_and_length() -> None:
    ids, mask, special = texts([500] * 40)
    found = run("span_corruption", ids, mask, special, seed=8)
    hidden = sum(len([one for one in row if one >= 1000]) for row in found["labels"])
    spans = ((found["input_ids"] <= FIRST) & (found["input_ids"] > FIRST - 100)).sum(1)
    assert hidden == 75 * 40
    assert (spans == 25).all(), "no two runs meet"
    for row in range(40):
        made = row_of(found, row)
        assert made[1] == 1000
        assert made[-2] == FIRST - 24


def test_every_cut_into_spans_is_as_likely() -> None:
    """3 of 6 tokens in 2 runs: 2 ways to cut the noise, 2 to cut what stays, as in random_spans_noise_mask."""
    ids, mask, special = texts([6] * 800)
    found = run("span_corruption", ids, mask, special, noise_density=0.5, mean_noise_span_length=1.5, seed=1)
    stay = [tuple(one for one in row_of(found, row)[1:-1] if one >= 1000) for row in range(800)]
    counts = {one: stay.count(one) for one in set(stay)}
    assert set(counts) == {(1000, 1002, 1003), (1000, 1003, 1004), (1000, 1001, 1003), (1000, 1001, 1004)}
    assert all(abs(count - 200) < 5 * np.sqrt(200) for count in counts.values())


def test_there_are_only_so_many_sentinels() -> None:
    ids, mask, special = texts([400])
    found = run("span_corruption", ids, mask, special, noise_density=0.5, mean_noise_span_length=1, extra_ids=20)
    made = row_of(found, 0)
    assert [one for one in made if one < 1000][1:-1] == list(range(FIRST, FIRST - 19, -1))
    assert found["labels"][0][-2] == FIRST - 19


def test_rates_are_met_in_expectation_by_short_texts_too() -> None:
    """Of 3 tokens 15 in 100 are none or one: 0.45 on average."""
    ids, mask, special = texts([3] * 1000)
    for name in ("span_corruption", "text_infilling"):
        found = run(name, ids, mask, special, seed=1, **{RATE[name]: 0.15})
        stay = int((found["input_ids"] >= 1000).sum())
        hidden = 3 * 1000 - stay
        rate = 0.45 if name == "span_corruption" else 0.45 * (1 - np.exp(-3) ** 3)  # three draws may all be 0
        assert share(hidden, 1000, rate)


# --- pairs ------------------------------------------------------------------------------------------------------


def pairs(spec: str, name: str, seed: int, count: int) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    given: dict[str, Any] = {"cls_token_id": CLS, "sep_token_id": SEP, "seed": seed}
    names = ["input_ids", "next_input_ids", "random_input_ids"][: 3 if name == "next_sentence_pairs" else 2]
    for place, one in enumerate(names):
        given[one] = [[1000 * (place + 1) + k for k in range(rng.integers(0, 6))] for _ in range(count)]
    found: dict[str, Any] = corruption(spec, name)(**given)
    return {**found, "given": given}


@pytest.mark.parametrize(
    ("spec", "name", "label"),
    [
        ("bert", "next_sentence_pairs", "next_sentence_label"),
        ("albert", "sentence_order_pairs", "sentence_order_label"),
    ],
)
def test_pairs_are_framed_and_labelled(spec: str, name: str, label: str) -> None:
    found: Any = pairs(spec, name, 4, 600)
    given = found["given"]
    assert share(int(found[label].sum()), 600, 0.5)
    for row in range(600):
        a, b = given["input_ids"][row], given["next_input_ids"][row]
        if found[label][row] and name == "next_sentence_pairs":
            b = given["random_input_ids"][row]
        elif found[label][row]:
            a, b = b, a
        assert row_of(found, row) == [CLS, *a, SEP, *b, SEP]
        assert row_of(found, row, "token_type_ids") == [0] * (len(a) + 2) + [1] * (len(b) + 1)
        assert row_of(found, row, "special_tokens_mask") == [1, *[0] * len(a), 1, *[0] * len(b), 1]


def test_a_pair_goes_on_to_be_masked() -> None:
    """Results have the names that the next corruption takes, padding included."""
    made: Any = pairs("bert", "next_sentence_pairs", 1, 50)
    ids, mask, special = (made[name] for name in ("input_ids", "attention_mask", "special_tokens_mask"))
    assert (special[mask == 0] == 1).all()
    found = run("masking", ids, mask, special, mlm_probability=0.5, seed=1)
    assert (found["labels"][special == 1] == LABEL_NONE).all()
    assert (found["input_ids"][special == 1] == ids[special == 1]).all()


# --- given parts ------------------------------------------------------------------------------------------------


def test_replacements_may_be_given() -> None:
    """ELECTRA: samples of a generator at the masked places; where the sample is right, nothing is replaced."""
    ids, mask, special = texts([6] * 2)
    chosen = np.array([[0, 1, 1, 0, 1, 0, 0, 1]] * 2)
    new = np.full_like(ids, 2000)
    new[:, 2] = ids[:, 2]
    found = run("replaced_tokens", ids, mask, special, masked_positions=chosen, replacement_ids=new)
    assert found["labels"].tolist() == [[0, 1, 0, 0, 1, 0, 0, 0]] * 2
    assert found["input_ids"].tolist() == np.where(found["labels"] == 1, 2000, ids).tolist()


def test_rates_may_differ_from_text_to_text() -> None:
    ids, mask, special = texts([50] * 3)
    found = run("token_masking", ids, mask, special, mask_probability=[0.0, 1.0, 0.5])
    hits = (found["input_ids"] == MASK).sum(1)
    assert hits[0] == 0
    assert hits[1] == 50
    assert 10 < hits[2] < 40


def test_the_decoder_reads_the_text_one_place_later() -> None:
    ids, mask, special = texts([3, 1])
    found = run("text_infilling", ids, mask, special)
    assert found["labels"].tolist() == [ids[0].tolist(), [*ids[1][:3], LABEL_NONE, LABEL_NONE]]
    assert row_of(found, 0, "decoder_input_ids", "decoder_attention_mask") == [2, *ids[0][:-1]]
