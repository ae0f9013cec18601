"""The lexical score is METHOD's formula, literally; the index grows without being rebuilt."""

import itertools
import math
import random
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plume_memory.errors import InvalidInput
from plume_memory.records import Unit
from plume_memory.retrieval.lexical import UnitIndex, idf
from plume_memory.terms import FUNCTION_WORDS, stem_of, terms_of

WORDS = ["the", "a", "lamp", "Bern", "zurich", "7", "fish", "moon"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), min_size=1, max_size=12)
QUERIES = st.lists(st.sampled_from([*WORDS, "absent", "日本"]), max_size=6).map(" ".join)


def units(texts: list[str]) -> list[Unit]:
    return [Unit(i, i + 1, 0, len(text), text) for i, text in enumerate(texts)]


def literal_scores(texts: list[str], query: str, k1: float = 1.5) -> list[float]:
    """METHOD, word by word; slow on purpose."""
    tokens = [re.findall(r"[a-z0-9]+", text.lower()) for text in texts]
    Q = sorted(set(re.findall(r"[a-z0-9]+", query.lower())))
    n = {t: sum(t in words for words in tokens) for t in Q}
    w = {t: math.log(1 + (len(texts) - n[t] + 0.5) / (n[t] + 0.5)) if n[t] else 0.0 for t in Q}
    W = sum(w.values())
    if not Q or W == 0:
        return [0.0] * len(texts)
    scores = []
    for words in tokens:
        c = {t: words.count(t) for t in Q}
        coverage = sum(w[t] for t in Q if c[t] > 0) / W
        F = sum(w[t] * c[t] * (k1 + 1) / (c[t] + k1) for t in Q if c[t] > 0)
        scores.append(0.5 * coverage + 0.5 * F / (F + W))
    return scores


@settings(max_examples=200)
@given(texts=TEXTS, query=QUERIES, delta=st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_scores_candidates_and_choice_equal_the_literal_formula(texts, query, delta):
    index = UnitIndex(units(texts))
    expected = literal_scores(texts, query)
    np.testing.assert_allclose(index.score(query), expected, rtol=0, atol=1e-12)
    scores = index.score(query).tolist()
    candidates = [i for i in range(len(texts)) if scores[i] >= max(scores) - delta]
    others = sorted(set(range(len(texts))) - set(candidates), key=lambda i: (-scores[i], -i))
    ranked = index.rank(query, delta=delta, k=len(texts))
    assert [(one.unit.position, one.score) for one in ranked] == [(i, scores[i]) for i in [*candidates[::-1], *others]]
    assert index.route(query, delta=delta).unit.position == max(candidates)


@settings(max_examples=100)
@given(texts=TEXTS, cut=st.integers(0, 12), query=QUERIES)
def test_shared_is_the_share_of_a_querys_words_that_a_unit_holds(texts, cut, query):
    every = units(texts)
    index = UnitIndex(every[:cut], stem=lambda term: term[:3]).extended(every[cut:])
    asked = {term[:3] for term in terms_of(query) if term not in FUNCTION_WORDS}
    wanted = [len(asked & {term[:3] for term in terms_of(text)}) / max(1, len(asked)) for text in texts]
    assert index.shared(query).tolist() == pytest.approx(wanted)


@settings(max_examples=150)
@given(texts=TEXTS, cuts=st.lists(st.integers(0, 12), max_size=4), query=QUERIES)
def test_an_extended_index_equals_a_rebuilt_one(texts, cuts, query):
    every = units(texts)
    bounds = [0, *sorted(min(cut, len(every)) for cut in cuts), len(every)]
    grown = UnitIndex()
    for start, stop in itertools.pairwise(bounds):
        grown = grown.extended(every[start:stop])
    rebuilt = UnitIndex(every)
    assert list(grown) == list(rebuilt) == every
    assert grown.score(query).tolist() == rebuilt.score(query).tolist()


def test_an_index_is_not_changed_by_its_extensions():
    begun = UnitIndex(units(["lamp in bern"]))
    before = begun.score("lamp zurich").tolist()
    one = begun.extended([Unit(1, 2, 0, 6, "zurich")])
    other = begun.extended([Unit(1, 2, 0, 4, "lamp"), Unit(2, 3, 0, 4, "fish")])
    assert begun.score("lamp zurich").tolist() == before
    assert (len(begun), len(one), len(other)) == (1, 2, 3)
    assert one[1].text == "zurich"
    assert other[1].text == "lamp"


def test_the_latest_of_the_candidates_wins():
    index = UnitIndex(units(["alice lives in bern", "the weather is fine", "alice lives in zurich", "fish swim"]))
    found = index.route("Where does Alice live? alice lives", delta=0.5)
    assert found.unit.text == "alice lives in zurich"
    assert (found.gain, found.superseded) == (None, False)


@pytest.mark.parametrize("query", ["", "?!", "Где живёт Алиса", "爱丽丝住在哪里", "absent words"])
def test_a_query_without_a_known_term_scores_zero_and_takes_the_latest_unit(query):
    index = UnitIndex(units(["alice lives in bern", "bob is here"]))
    assert index.score(query).tolist() == [0.0, 0.0]
    assert index.route(query, delta=0.5).unit.position == 1


def test_rank_gives_candidates_latest_first_then_the_others_by_score():
    index = UnitIndex(units(["lamp bern", "lamp", "nothing", "lamp bern", "moon"]))
    ranked = index.rank("lamp bern", delta=0.1, k=9)
    assert [one.unit.position for one in ranked] == [3, 0, 1, 4, 2]
    assert index.rank("lamp bern", delta=0.1, k=1) == ranked[:1]


@pytest.mark.parametrize("texts", [["alice lives in bern"], ["alice lives in bern", "alice lives in zurich"]])
def test_with_one_or_two_units_a_term_in_all_of_them_still_counts(texts):
    assert idf(len(texts), len(texts)) > 0
    index = UnitIndex(units(texts))
    assert (index.score("alice") > 0.5).all()


def test_an_empty_index_and_bad_arguments_are_refused():
    with pytest.raises(InvalidInput, match="empty"):
        UnitIndex().route("x", delta=0.5)
    index = UnitIndex(units(["a"]))
    with pytest.raises(InvalidInput, match="position 1"):
        index.extended([Unit(5, 2, 0, 1, "b")])
    for delta, k in ((0.5, 0), (-1.0, 1), (math.nan, 1)):
        with pytest.raises(InvalidInput, match="at least"):
            index.rank("a", delta=delta, k=k)
    with pytest.raises(IndexError):
        index[1]


# --- what is to be read ---------------------------------------------------------------------------


def best(index: UnitIndex, query: str, *, k: int, tied: int) -> list[int]:
    return [one.unit.position for one in index.best(query, k=k, tied=tied)]


@settings(max_examples=150)
@given(texts=TEXTS, query=QUERIES, k=st.integers(1, 14), more=st.integers(0, 5))
def test_the_best_are_the_first_by_score_and_those_that_equal_the_last(texts, query, k, more):
    index = UnitIndex(units(texts))
    scores = index.score(query).tolist()
    falling = sorted(range(len(texts)), key=lambda i: (-scores[i], -i))
    tied = [i for i in falling[k:] if scores[i] == scores[falling[k - 1]] > 0]
    found = index.best(query, k=k, tied=k + more)
    assert [one.unit.position for one in found] == [*falling[:k], *tied[:more]]
    assert [one.score for one in found] == [scores[one.unit.position] for one in found]


def test_units_that_hold_nothing_of_a_question_are_no_equals():
    index = UnitIndex(units(["fish", "moon", "lamp", "bern"]))
    assert best(index, "bern", k=2, tied=4) == [3, 2]
    assert best(index, "", k=2, tied=4) == [3, 2]
    assert best(UnitIndex(), "bern", k=2, tied=4) == []


def test_questions_are_not_among_the_best_but_what_stands_under_one_is():
    asked = "Where is the lamp?"
    texts = [asked, f"## {asked}\n- in the lamp shop", f"## {asked}\n- Which lamp?", "the lamp is here", asked.lower()]
    owns = [0, len(f"## {asked}\n"), len(f"## {asked}\n"), 0, 0]
    index = UnitIndex([Unit(i, 1, 0, len(t), t, own) for i, (t, own) in enumerate(zip(texts, owns, strict=True))])
    assert sorted(best(index, "where is the lamp", k=9, tied=9)) == [1, 3]
    assert best(UnitIndex(units([asked, asked])), "lamp", k=9, tied=9) == []


def test_routing_costs_what_the_number_of_units_does(growth):
    rng = random.Random(0)
    vocabulary = [f"w{i}" for i in range(5000)]
    weights = [1 / (i + 1) for i in range(5000)]
    drawn = rng.choices(vocabulary, weights, k=10_000 * 100)
    texts = [" ".join(drawn[i * 100 : i * 100 + 100]) for i in range(10_000)]
    indexes = {n: UnitIndex(units(texts[:n])) for n in (2_500, 10_000)}
    common = " ".join(vocabulary[:15])
    assert growth(lambda n: [indexes[n].route(common, delta=0.5) for _ in range(20)], 2_500) < 9


def test_forms_of_a_word_are_one_term_where_a_stem_is_given():
    texts = ["We camped by the lake.", "The lake is deep.", "Lakes freeze.", "Lakeland is a county."]
    plain, stemmed = UnitIndex(units(texts)), UnitIndex(units(texts), stem=stem_of)
    assert plain.score("camping").tolist() == [0, 0, 0, 0]
    assert [score > 0 for score in stemmed.score("camping")] == [True, False, False, False]
    assert [score > 0 for score in stemmed.score("lake")] == [True, True, True, False]
    counts = UnitIndex(units(["lake lakes", "pond"]), stem=stem_of).score("lake")
    assert counts[0] > UnitIndex(units(["lake", "pond"]), stem=stem_of).score("lake")[0]  # two forms count as two
    extended = UnitIndex(stem=stem_of).extended(units(texts[:2])).extended(units(texts)[2:])
    assert np.array_equal(extended.score("lakes camping"), stemmed.score("lakes camping"))


@pytest.mark.parametrize(("term", "stem"), [("camping", "camp"), ("C#", "C#"), ("IT", "IT"), ("jörgs", "jörgs")])
def test_only_english_words_have_a_stem(term, stem):
    assert stem_of(term) == stem
