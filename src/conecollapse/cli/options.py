"""Options that several commands share, and the parsing of their values."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from conecollapse._errors import InvalidInputError, MissingDependencyError
from conecollapse.cli.terminal import note
from conecollapse.io.text import read_text, stem

File = Annotated[
    Path,
    typer.Argument(
        help=(
            "A table: .npy, .npz, .csv, .tsv, .mtx, .parquet or .h5ad; or a folder: 10x Genomics,"
            " or .txt files."
        ),
        show_default=False,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Folder of the results; named after the file by default."),
]
FeaturesIn = Annotated[str, typer.Option(help="Where the features are: rows, columns, or auto.")]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of a .csv or .tsv is a heading; detected by default.",
    ),
]
Names = Annotated[
    bool | None,
    typer.Option(
        "--names/--no-names", help="Whether the first column holds names; detected by default."
    ),
]
Normalize = Annotated[
    list[str] | None,
    typer.Option(
        help=(
            "unit-samples, sum-samples, max (each feature by its largest value), log (1 + x) or"
            " cells (sum-samples, then log). Repeat it for several, in order."
        )
    ),
]
AllFeatures = Annotated[
    bool,
    typer.Option(
        "--all-features",
        help="Use all features of an .h5ad file, also where it marks highly variable ones.",
    ),
]
Layer = Annotated[str | None, typer.Option(help="Of an .h5ad file: the layer to use instead of X.")]
TextColumn = Annotated[
    str | None,
    typer.Option(
        help="Of a .csv or .tsv file: the column of texts; their words become the features."
    ),
]
StopWords = Annotated[
    str | None,
    typer.Option(
        help="Of texts: words to leave out. auto, a language such as german, none, or a .txt file."
    ),
]
Ngrams = Annotated[
    int, typer.Option("--ngrams", min=1, help="Of texts: most words of what is counted together.")
]
MinDf = Annotated[
    str | None,
    typer.Option(
        "--min-df", help="Of texts: documents, or their share, that must hold a word: 5, or 0.01."
    ),
]
Clip = Annotated[
    bool, typer.Option("--clip", help="Set negative values to zero, and say how many.")
]
Bands = Annotated[
    str, typer.Option(help="Of a cube: whether its bands are the last or the first dimension.")
]
Variable = Annotated[
    str | None,
    typer.Option(help="Of a .mat or .npz file with several arrays: the one to use."),
]
TfIdf = Annotated[bool, typer.Option("--tfidf", help="Weight counts of words by TF-IDF.")]
ImageShape = Annotated[
    str | None,
    typer.Option(help="Height x width of a sample when the features are pixels, such as 112x92."),
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Force = Annotated[
    bool,
    typer.Option("--force", help="Replace the folder if it holds an earlier run, and no other."),
]
Model = Annotated[bool, typer.Option(help="Keep what predict needs; the folder then holds data.")]
Report = Annotated[bool, typer.Option(help="Write report.html.")]
WriteH5ad = Annotated[
    Path | None, typer.Option(help="Also write an .h5ad file with the data and the results.")
]
MovedData = Annotated[Path | None, typer.Option(help="The data, if it was moved.")]


def image_shape(text: str | None, option: str = "--image-shape") -> tuple[int, int] | None:
    """ "112x92" as (112, 92).

    Examples
    --------
    >>> image_shape("112x92")
    (112, 92)
    """
    if text is None:
        return None
    found = re.fullmatch(r"\s*([0-9]+)\s*[xX,]\s*([0-9]+)\s*", text)
    if not found or not int(found[1]) * int(found[2]):
        raise InvalidInputError(f"{option} takes height x width, such as 112x92; got {text!r}.")
    return int(found[1]), int(found[2])


def number(text: str, of: str) -> int | Literal["auto"]:
    """A number of clusters or components, or "auto"."""
    if text == "auto":
        return "auto"
    if not (text.isascii() and text.isdecimal()) or not int(text):
        raise InvalidInputError(f"-k takes a number of {of}, or auto; got {text!r}.")
    return int(text)


def words(stop_words: str | None, ngrams: int, min_df: str | None) -> dict[str, Any] | None:
    """Which words of texts are counted, as `count_words` takes it; None for its defaults.

    Examples
    --------
    >>> words("none", 2, "0.01")
    {'stop_words': None, 'ngram_range': (1, 2), 'min_df': 0.01}
    """
    found: dict[str, Any] = {}
    if stop_words is not None:
        is_file = stop_words.endswith(".txt")
        listed = read_text(Path(stop_words)).decode().split() if is_file else stop_words
        found["stop_words"] = None if listed == "none" else listed
    if ngrams > 1:
        found["ngram_range"] = (1, ngrams)
    if min_df is not None:
        try:
            found["min_df"] = int(min_df) if min_df.isdecimal() else float(min_df)
        except ValueError:
            raise InvalidInputError(f"--min-df takes 5, or a share 0.01; got {min_df!r}.") from None
    return found or None


def share(text: str, option: str, limits: str) -> float | Literal["auto"]:
    """A share between 0 and 1, or "auto"; ``limits`` says in words which shares the option takes,
    and the library checks them."""
    if text == "auto":
        return "auto"
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise InvalidInputError(f"{option} takes {limits}, or auto; got {text!r}.")
    return number


def out_folder(out: Path | None, file: Path, what: str) -> Path:
    """Where the results go: as asked, or here, named after the file."""
    return out if out is not None else Path(f"{stem(file) or file.name}-{what}")


def save_run(
    run: Any,
    folder: Path,
    *,
    report: bool = False,
    model: bool = True,
    force: bool = False,
    progress: Any = None,
) -> None:
    """Write a run to a folder, with its report if that is wanted."""
    from conecollapse.runs import save

    if progress is not None:
        progress("report", 0, 1)
    save(run, folder, report_writer() if report else None, force=force, model=model)


def report_writer() -> Callable[[Path, Any], None] | None:
    """What writes the report. Without the packages that draw it a note names their extra, and the
    other results are written."""
    try:
        from conecollapse.report import write_report
    except MissingDependencyError as error:
        note(f"no report is written. {error}")
        return None
    return write_report
