"""``conecollapse compare``: two folders of results side by side, as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from conecollapse.cli import options
from conecollapse.cli.terminal import say, say_json, working

SHOWN = 8  # differences that are printed


def compare(
    first: Annotated[
        Path, typer.Argument(help="A folder that cluster, rays or unmix wrote.", show_default=False)
    ],
    second: Annotated[Path, typer.Argument(help="Another one.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path(
        "comparison.html"
    ),
    force: options.Replace = False,
    as_json: options.Json = False,
) -> None:
    """Compare the results in two folders: their parameters, clusters, and rays or components.

    Samples and features are matched by name. Writes one page (.html).
    """
    from conecollapse.runs.places import PAGE_MARK, check_place

    place = check_place(out, PAGE_MARK, force=force)
    from conecollapse.runs.reading import run_facts

    run_facts(first), run_facts(second)  # what is no run is refused before scikit-learn is imported
    from conecollapse.runs.comparing import compare as run_compare

    with working("comparing"):
        found = run_compare(first, second)
        from conecollapse.report import write_report

        write_report(place, found)
    if as_json:
        say_json({"page": str(place), **found.results(), "differences": found.differences()})
        return
    _say(found)
    say(f"page in {place}")


def _say(found: Any) -> None:
    from conecollapse.runs.comparing import ASKED

    results = found.results()
    if found.labels is not None:
        share, rand = results["share_in_matching_clusters"], results["adjusted_rand"]
        say(
            f"{results['n_common_samples']} samples in both runs, {share:.1%} in matching clusters;"
            f" adjusted Rand index {rand:.3f}."
        )
    if found.rays is not None:
        first, second = results["n_rays"]
        say(f"{results['n_common_rays']} features are rays in both runs, of {first} and {second}.")
    for match in found.matches or []:
        say(f"component {match.first} and component {match.second}: {match.angle:.3g} degrees.")
    rows = found.differences(ASKED)
    say(
        "They were asked for different things:"
        if rows
        else "Both were asked for the same, of the same data."
    )
    for name, first, second in rows[:SHOWN]:
        say(f"  {name}: {first}, {second}")
    if len(rows) > SHOWN:
        say(f"  and {len(rows) - SHOWN} more, see the page")
