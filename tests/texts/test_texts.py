"""Topics of documents: what counts as a word, which words tell a topic, and what can be done with
topics."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from conecollapse import InvalidInputError, texts
from conecollapse.io.documents import (
    LANGUAGES,
    as_texts,
    choose_stop_words,
    count_words,
    stop_words_of,
)

SENTENCES = {
    "english": "the cat is in the house and it was not with the dog",
    "german": "die Katze ist in dem Haus und war nicht mit dem Hund",
    "french": "le chat est dans la maison et il n'était pas avec le chien",
    "spanish": "el gato está en la casa y no estaba con el perro",
    "italian": "il gatto è nella casa e non era con il cane",
    "portuguese": "o gato está na casa e não estava com o cão",
}
SUBJECTS = (
    "cats dogs mice milk fur paws tails whiskers",
    "stocks bonds markets prices banks trades funds rates",
    "rain snow wind clouds storms sun fog frost",
)


def make_documents(n: int = 60, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Documents of some words of one of three subjects."""
    rng = np.random.default_rng(seed)
    kinds = np.arange(n) % 3
    return [" ".join(rng.choice(SUBJECTS[k].split(), 5)) for k in kinds], kinds


@pytest.fixture(scope="module")
def found() -> texts.Topics:
    return texts.topics(
        make_documents()[0], 3, dates=pd.date_range("2020-01-01", periods=60, freq="30D")
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_language_is_the_one_whose_function_words_there_are_most_of(language):
    chosen, words = choose_stop_words([SENTENCES[language]])
    assert chosen == language
    assert set(words) == stop_words_of(language)


def test_a_word_for_a_thing_that_is_a_function_word_elsewhere_tells_no_language():
    assert choose_stop_words(["sea ship sail", "son tree sea", "ship wave"])[0] == "english"


def test_addresses_and_markup_are_no_words():
    documents = [
        "Visit https://example.org/path?x=1 or www.example.com <b>today</b>",
        "mail someone@example.org &nbsp; today <!-- hidden --> please",
    ]
    words = count_words(as_texts(documents), "example", stop_words=None).words.tolist()
    assert words == ["mail", "or", "please", "today", "visit"]


def test_a_word_of_a_topic_is_shared_by_its_documents_and_not_by_others():
    # "both" is everywhere, "once" is in one document only, "mine" tells the first topic
    vocabulary = np.array(["both", "mine", "once", "yours"])
    X = sp.csr_array(
        [[1, 1, 9, 0], [1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 1], [1, 0, 0, 1], [1, 0, 0, 1]]
    )
    words = texts.topic_words(X, np.array([0, 0, 0, 1, 1, 1]), vocabulary, 2)
    assert words == [["mine", "once"], ["yours"]]


def test_documents_of_one_subject_are_one_topic(found):
    kinds = make_documents()[1]
    for k in range(3):
        assert len(set(found.labels[kinds == k])) == 1
        subject = SUBJECTS[kinds[found.documents[k][0]]].split()
        assert set(found.words[k]) <= set(subject)
        assert found.names[k] == ", ".join(found.words[k][:3])


def test_new_documents_get_the_topic_of_their_words(found):
    new = ["snow and fog", "banks, stocks and bonds", "zzz"]
    kinds = make_documents()[1]
    expected = [found.labels[kinds == k][0] for k in (2, 1)]
    assert found.predict(new).tolist() == [*expected, -1]


def test_topics_over_time_are_shares_of_each_period(found):
    shares = found.over_time()
    assert shares.columns.tolist() == found.names
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert len(found.over_time(["2020-01-01"] * 60, period="M")) == 1


def test_merged_topics_are_one_and_keep_their_documents(found):
    merged = found.merge([0, 2]).rename({0: "both"})
    assert merged.n_topics == 2
    assert merged.names[0] == "both"
    np.testing.assert_array_equal(merged.labels == 0, found.labels != 1)
    assert set(merged.predict(["snow", "banks", "cats"]).tolist()) == {0, 1}


def test_pairs_of_words_can_be_counted():
    documents = ["new york is big", "new york is loud", "bread is old", "old bread is hard"] * 5
    found = texts.topics(documents, 2, ngram_range=(1, 2), stop_words=["is"])
    assert "new york" in found.vocabulary.tolist()
    assert found.predict(["new york"])[0] == found.labels[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("one text", 2), "a list of strings"),
        ((["a text", None, "b"], 2), "entry 1 is 'None'"),
        ((["red apples"] * 4, "many"), "or \"auto\"; got 'many'"),
        (([], 2), "documents is empty"),
        ((["red apples"] * 4, 5), "n_topics = 5, but only 4 documents"),
    ],
)
def test_what_are_no_documents_is_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        texts.topics(*arguments)


def test_what_does_not_fit_is_refused(found):
    with pytest.raises(InvalidInputError, match="there is no topic 7"):
        found.rename({7: "x"})
    with pytest.raises(InvalidInputError, match="two topics or more"):
        found.merge([1])
    with pytest.raises(InvalidInputError, match="2 dates for 60 documents"):
        found.over_time(["2020", "2021"])
    with pytest.raises(InvalidInputError, match="dates must be a list"):
        found.over_time("M")
    with pytest.raises(InvalidInputError, match="period must be one of Y, Q"):
        found.over_time(["2020"] * 60, "month")
    with pytest.raises(InvalidInputError, match="no document with a topic has a date"):
        found.over_time([None] * 60)
    with pytest.raises(InvalidInputError, match=r"such as .0, 1.; got 0"):
        found.merge(0)
    with pytest.raises(InvalidInputError, match="names must be a dictionary"):
        found.rename(["x"])
    for options, message in (
        ({"ngram_range": (2, 1)}, "ngram_range must be"),
        ({"ngram_range": 2}, "ngram_range must be"),
        ({"min_df": -1}, "min_df must be"),
        ({"min_df": 1.5}, "min_df must be"),
        ({"dates": ["soon"] * 60}, "dates cannot be read"),
        ({"dates": ["01/02/2024", *["2024-03-04"] * 59]}, "dates of one form"),
        ({"dates": 5}, "dates must be a list"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            texts.topics(make_documents()[0], 3, **options)
    with pytest.raises(InvalidInputError, match="stop_words must be"):
        texts.topics(make_documents()[0], 3, stop_words="klingon")


def test_whole_numbers_are_years(found):
    shares = found.over_time([2019] * 30 + [2020] * 30)
    assert [str(year) for year in shares.index] == ["2019", "2020"]


def test_topics_of_one_name_stay_apart_over_time(found):
    shares = found.rename({0: "same", 1: "same"}).over_time([2020] * 60)
    np.testing.assert_allclose(shares.to_numpy()[0], np.bincount(found.labels) / 60)


def test_a_single_topic_is_named_by_the_words_of_most_documents(found):
    words = found.merge([0, 1, 2]).words[0]
    holds = np.bincount(found.table.indices, minlength=len(found.vocabulary))
    assert words[0] == found.vocabulary[holds.argmax()]


def test_topics_are_shown_in_a_line(found):
    assert repr(found).startswith("3 topics of 60 documents (0: ")


def test_the_command_counts_the_words_that_are_asked_for_and_predicts_new_texts(
    tmp_path, run, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    body = [
        "Der rote Apfel faellt",
        "Der rote Apfel reift",
        "Ein blaues Boot",
        "Das blaue Boot",
    ] * 5
    pd.DataFrame({"body": body}).to_csv("old.csv", index=False)
    pd.DataFrame({"body": ["blaue Boot im Wind"]}).to_csv("new.csv", index=False)
    (tmp_path / "words.txt").write_text("der das ein")
    more = ["--text-column", "body", "--no-report"]
    code, out, err = run(
        *("cluster", "old.csv", "-k", "2", *more),
        *("--stop-words", "words.txt", "--ngrams", "2", "--min-df", "3"),
    )
    assert code == 0, err
    assert "rote apfel" in out
    assert "faellt" in out
    assert run("verify", "old-clusters")[0] == 0
    code, out, err = run("predict", "old-clusters", "new.csv", "--json")
    assert code == 0, err
    labels = pd.read_csv(tmp_path / "old-clusters" / "labels.csv")["cluster"]
    assert list(json.loads(out)["found"]) == [str(labels[2])]
    code, out, err = run("cluster", "old.csv", "-k", "2", *more, "--min-df", "few", "--force")
    assert "--min-df takes 5, or a share 0.01; got 'few'" in err
    assert "german" in run("cluster", "old.csv", "-k", "2", *more, "--force")[1]
