"""Texts: a column of a ``.csv`` or ``.tsv`` file, or a folder of ``.txt`` files, as counts of
words.

A word is a run of at least two letters (marks and apostrophes inside included), in lower case.
Addresses and markup (tags, entities) are no words. Left out are the function words of the language
of which the texts have most (`conecollapse.io.documents`), words of fewer than two documents (of
fewer than one in a thousand, where that is more) and words of more than half of the documents. With
fewer than `FEW` documents, words of a single document are kept. A document without any word that is
left keeps its row, of zeros.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError, argument
from conecollapse._types import AnyArray
from conecollapse.io.limits import check_file
from conecollapse.io.matrix import as_names
from conecollapse.io.text import check_width, read_rows, read_text, suffix

WORD = r"(?u)\b[^\W\d_]{2,}(?:['\u2019][^\W\d_]+)?\b"
# what a text holds beside words: addresses of the web and of people, tags, comments and entities
NO_WORDS = re.compile(
    r"(?:https?://|www\.)\S+|\S+@\S+\.\w+|<!--.*?-->|</?[a-z][^<>]*>|&#?\w+;", re.DOTALL
)
TELLING = 2000  # documents from which the language is read
# different function words: one or two may be words for things elsewhere, as Spanish "sea" and "son"
FEWEST_TELLING = 3
FEW = 10  # documents
LEAST_SHARE, MOST_SHARE = 0.001, 0.5  # of the documents that hold a word
LEAST = 2  # documents that hold a word
# headings of columns that name documents
ID_WORDS = frozenset(["id", "name", "title", "document", "doc", "key"])
KINDS = (".csv", ".tsv")
NAME = 200  # characters of a document's name that are kept


@dataclass(frozen=True)
class Texts:
    """Documents with their names."""

    names: AnyArray
    texts: list[str]


def read_column(path: Path, column: str) -> Texts:
    """The texts in the column with the heading ``column``; another column called id, name or title
    names them, else their numbers."""
    if suffix(path) not in KINDS:
        raise InvalidInputError(
            f"{argument('text_column', column)} is for {' and '.join(KINDS)} files; {path.name} is"
            " none."
        )
    rows = read_rows(path)
    heading = next(rows, (1, []))[1]
    if column not in heading:
        raise InvalidInputError(
            f"{path.name} has no column {column!r}; its heading is"
            f" {', '.join(map(repr, heading[:8]))}."
        )
    at = heading.index(column)
    names_at = next(
        (j for j, word in enumerate(heading) if j != at and word.strip().lower() in ID_WORDS), None
    )
    texts: list[str] = []
    names: list[str] = []
    for line in rows:
        check_width(line, len(heading), path)
        cells = line[1]
        texts.append(cells[at])
        names.append(cells[names_at] if names_at is not None else str(len(names)))
    if not texts:
        raise InvalidInputError(f"{path.name} has a heading and no texts.")
    return Texts(as_names((name[:NAME] for name in names), "documents"), texts)


def as_texts(source: Any) -> Texts | None:
    """The texts that a list, a tuple, an array of one dimension or a series holds; None for
    anything else."""
    if isinstance(source, (list, tuple)) or (
        getattr(source, "ndim", 0) == 1 and getattr(source, "dtype", None) is not None
    ):
        texts = list(source)
        if texts and all(isinstance(text, str) for text in texts):
            return Texts(as_names(range(len(texts)), "documents"), [str(text) for text in texts])
    return None


def text_files(folder: Path) -> list[Path]:
    """The ``.txt`` files of a folder, by name."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() == ".txt" and not path.name.startswith(".") and path.is_file()
    )


def read_folder(folder: Path) -> Texts:
    """Each ``.txt`` file of a folder as a document, named after the file."""
    texts = []
    for path in (files := text_files(folder)):
        content = b""
        if path.stat().st_size:
            check_file(path)
            content = read_text(path)
        texts.append(content.decode("utf-8-sig"))
    return Texts(as_names((path.stem for path in files), "documents"), texts)


def without_markup(text: str) -> str:
    """The text in lower case, without addresses and markup.

    Examples
    --------
    >>> without_markup('See <a href="x">the Docs</a> at https://example.org/a&amp;b now').split()
    ['see', 'the', 'docs', 'at', 'now']
    """
    return NO_WORDS.sub(" ", text.lower())


def choose_stop_words(
    texts: list[str], wanted: Any = "auto"
) -> tuple[str | None, list[str] | None]:
    """The language of the stop words, None for the user's own or none, and the words.

    ``wanted`` is "auto", the name of a language, a list of words, or None for no stop words.
    """
    if wanted is None:
        return None, None
    if isinstance(wanted, str) and wanted in ("auto", *LANGUAGES):
        if wanted == "auto":
            tokens = re.compile(WORD)
            some = texts[:: max(len(texts) // TELLING, 1)]
            wanted = language_of(w for text in some for w in tokens.findall(without_markup(text)))
        return wanted, sorted(stop_words_of(wanted))
    if isinstance(wanted, str) or not isinstance(wanted, Iterable):
        raise InvalidInputError(
            f"stop_words must be 'auto', one of {', '.join(LANGUAGES)}, a list of words or None;"
            f" got {wanted!r}."
        )
    return None, sorted({str(word).lower() for word in wanted})


@dataclass(frozen=True)
class WordCounts:
    """Counts of words in documents."""

    X: Any  # (n_documents, n_words) CSR
    words: AnyArray
    language: str | None  # of the stop words; None if they are the user's own, or none


def _check_counting(ngram_range: Any, min_df: Any) -> None:
    n = tuple(ngram_range) if isinstance(ngram_range, (tuple, list)) else ()
    if len(n) != 2 or not all(isinstance(k, (int, np.integer)) for k in n) or not 1 <= n[0] <= n[1]:
        raise InvalidInputError(
            "ngram_range must be the least and most words of what is counted, such as (1, 2); got"
            f" {ngram_range!r}."
        )
    whole = isinstance(min_df, (int, np.integer)) and not isinstance(min_df, bool) and min_df >= 1
    if min_df is not None and not whole and not (isinstance(min_df, float) and 0 <= min_df <= 1):
        raise InvalidInputError(
            "min_df must be a number of documents of at least 1, or a share from 0.0 to 1.0; got"
            f" {min_df!r}."
        )


def count_words(
    documents: Texts,
    source: str,
    *,
    stop_words: Any = "auto",
    ngram_range: tuple[int, int] = (1, 1),
    min_df: int | float | None = None,
    vocabulary: Any = None,
) -> WordCounts:
    """Counts of words, of a ``vocabulary`` if there is one.

    Examples
    --------
    >>> texts = Texts(
    ...     np.array(["a", "b", "c"]), ["Red apples, red!", "The apples were green.", "42"]
    ... )
    >>> counts = count_words(texts, "example")
    >>> counts.words.tolist(), counts.X.toarray().tolist(), counts.language
    (['apples', 'green', 'red'], [[1.0, 0.0, 2.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]], 'english')
    """
    from sklearn.feature_extraction.text import CountVectorizer

    _check_counting(ngram_range, min_df)
    n = len(documents.texts)
    least = 1 if n < FEW else max(LEAST, int(np.ceil(LEAST_SHARE * n)))
    most = n if n < FEW else max(int(MOST_SHARE * n), least)
    language, left_out = choose_stop_words(documents.texts, stop_words)
    words = CountVectorizer(
        preprocessor=without_markup,
        stop_words=left_out,
        token_pattern=WORD,
        ngram_range=tuple(ngram_range),
        min_df=least if min_df is None else min_df,
        max_df=most,
        vocabulary=vocabulary,
    )
    try:
        counts = words.fit_transform(documents.texts)
    except ValueError as error:  # no word is left
        raise InvalidInputError(
            f"{source} has no word that occurs in {least if min_df is None else min_df} or more"
            f" {'(a share) ' if isinstance(min_df, float) else ''}of its {n} documents and in at"
            f" most {most} of them; is this the right text?"
        ) from error
    X = sp.csr_array(counts).astype(np.float64)
    return WordCounts(X, as_names(words.get_feature_names_out(), "words"), language)


GERMAN = """
ab aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes
auch auf aus bei beim bin bis bist da dabei dadurch dafür dagegen daher damit danach dann daran
darauf daraus darf darin darüber darum das dass dasselbe davon davor dazu dein deine deinem deinen
deiner dem den denen denn dennoch der deren derselbe des deshalb dessen dich die dies diese
dieselbe diesem diesen dieser dieses dir doch dort du durch eben ein eine einem einen einer eines
einige einigen einiger einmal er es etwa etwas euch euer eure für gegen gewesen gibt habe haben
hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im immer in indem
ins ist ja je jede jedem jeden jeder jedes jedoch jene jenem jenen jener jenes jetzt kann kein
keine keinem keinen keiner können könnte man manche mehr mein meine meinem meinen meiner mich mir
mit muss müssen nach nachdem nicht nichts noch nun nur ob oder ohne schon sehr sein seine seinem
seinen seiner seit selbst sich sie sind so sobald solche solchem solchen solcher soll sollte
sollten sondern sonst sowie über um und uns unser unsere unter viel viele vielen vom von vor war
waren warum was weg weil weiter welche welchem welchen welcher welches wenn wer werde werden wie
wieder will wir wird wo wollen wurde wurden während würde würden zu zum zur zwar zwischen
"""
FRENCH = """
afin ai ainsi alors après as au aucun aucune aujourd'hui auprès auquel aura aurait aussi autre
autres aux avaient avais avait avant avec avez avoir avons ayant bien car ce ceci cela celle
celles celui cependant ces cet cette ceux chaque chez comme comment contre dans de depuis des dès
donc dont du duquel elle elles en encore entre es est et étaient étais était étant été être eu eux
fait faire fois font furent fut hors ici il ils je jusque la là laquelle le lequel les lesquelles
lesquels leur leurs lors lorsque lui ma mais malgré me même mêmes mes mon moins ne ni non nos
notre nous on ont or ou où par parce parmi pas pendant peu peut peuvent plus plusieurs plutôt pour
pourquoi près puis puisque qu quand que quel quelle quelles quelque quelques quels qui quoi sa
sans se sera serait seront ses si sien soi soit son sont sous souvent suis sur ta tandis te tel
telle telles tels tes toi ton toujours tous tout toute toutes très trop tu un une va vers voici
voilà vos votre vous
"""
SPANISH = """
a al algo alguna algunas alguno algunos ambos ante antes aquel aquella aquellas aquello aquellos
aquí así aún aunque bajo bien cada casi como cómo con contra cual cuál cuales cualquier cuando
cuándo cuanto cuya cuyas cuyo cuyos de del desde después donde dónde dos durante e el él ella
ellas ello ellos en entonces entre era eran eres es esa esas ese eso esos esta está estaba estado
están estar estas este esto estos estoy fin fue fuera fueron ha había habían haber hace hacer
hacia han hasta hay he hoy la las le les lo los luego mas más me menos mi mí mientras mis misma
mismas mismo mismos mucha muchas mucho muchos muy nada ni ningún ninguna ninguno no nos nosotros
nuestra nuestras nuestro nuestros nunca o os otra otras otro otros para pero poca poco pocos
podemos poder por porque pues puede pueden que qué quien quién quienes se sea sean según ser será
serán si sí sido siempre sin sino sobre solo sólo somos son soy su sus suya suyo tal también
tampoco tan tanto te tenemos tener tengo ti tiene tienen toda todas todavía todo todos tras tu tú
tus un una unas uno unos usted ustedes va vez vosotros vuestra vuestro y ya yo
"""
ITALIAN = """
a ad agli ai al alcuna alcune alcuni alcuno alla alle allo allora altra altre altri altro anche
ancora avere aveva avevano c'è che chi ci ciascun ciascuna cioè ciò coi col come con contro cosa
così cui da dagli dai dal dall dalla dalle dallo degli dei del dell della delle dello dentro di
dopo dove due dunque durante e è ebbe ecco ed egli ella era erano essa esse essendo essere essi fa
fare fino fra fu furono già gli ha hai hanno ho i il in infatti inoltre invece io la là le lei li
lì lo loro lui ma me mentre mi mia mie miei mio molta molte molti molto ne né negli nei nel nell
nella nelle nello nessun nessuna nessuno noi non nostra nostre nostri nostro o ogni ognuno oltre
ora ossia parte per perché perciò però più poca poche pochi poco poi poiché possono prima proprio
può qua qual quale quali qualche quando quanta quanti quanto quasi quella quelle quelli quello
questa queste questi questo qui quindi sarà saranno se sé sei sembra sempre senza si sì sia siamo
siano siete sono sopra sotto sta stata state stati stato stessa stesse stessi stesso su sua sue
sugli sui sul sull sulla sulle sullo suo suoi tale tali tanto te ti tra tu tua tue tuo tuoi tutta
tutte tutti tutto un una uno verso vi voi vostra vostri vostro
"""
PORTUGUESE = """
a à agora ainda algo algum alguma algumas alguns ali além ambos ante antes ao aos apenas após
aquela aquelas aquele aqueles aquilo as às assim até bem cada com como contra cuja cujas cujo
cujos da daquela daquele das de dela delas dele deles depois desde dessa desse desta deste disso
disto do dos durante e é ela elas ele eles em enquanto então entre era eram essa essas esse esses
esta está estão estar estas estava estavam este estes estou eu fazer foi fora foram há isso isto
já lá lhe lhes logo mais mas me mesma mesmas mesmo mesmos meu meus minha minhas muita muitas muito
muitos na nada não nas nela nele nem nenhum nenhuma nessa nesse nesta neste no nos nós nossa
nossas nosso nossos num numa nunca o onde os ou outra outras outro outros para pela pelas pelo
pelos per perante pode podem poder pois por porém porque pouca poucas pouco poucos qual quais
qualquer quando quanto quase que quem quê se seja sejam sem sempre sendo ser será serão seu seus
si sido sob sobre somente somos sou sua suas são também tal tanto te tem têm tenho ter teu teus
tinha tinham toda todas todo todos tu tua tudo um uma umas uns vai vez você vocês vos
"""
LANGUAGES = ("english", "german", "french", "spanish", "italian", "portuguese")


def stop_words_of(language: str) -> frozenset[str]:
    """The function words of one of `LANGUAGES`."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    ours = dict(zip(LANGUAGES[1:], (GERMAN, FRENCH, SPANISH, ITALIAN, PORTUGUESE), strict=True))
    return frozenset(ours[language].split()) if language in ours else ENGLISH_STOP_WORDS


def language_of(words: Iterable[str]) -> str:
    """The language of whose function words there are most, if there are several different ones;
    else English.

    Examples
    --------
    >>> language_of("der Hund und die Katze sind in dem Haus".lower().split())
    'german'
    """
    counts = Counter(words)
    found = [[counts[word] for word in stop_words_of(name) if word in counts] for name in LANGUAGES]
    hits = [sum(each) if len(each) >= FEWEST_TELLING else 0 for each in found]
    return LANGUAGES[hits.index(max(hits))]
