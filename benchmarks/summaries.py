"""What the documentation says about each record: a short table or a sentence, computed from it.

A function takes the record of its name. Functions without an argument draw on several.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.paper.ablation import leave_one_out
from benchmarks.paper.records import read
from benchmarks.paper.scoreboard import OURS, Scoreboard, brief, make_scoreboard

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
PAPER_SETS = "the paper's twelve"


@dataclass(frozen=True)
class Record:
    """What a command printed, and the commit that it measured."""

    command: str
    commit: str
    printed: str

    @property
    def results(self) -> str:
        """What was printed, without the line about the machine."""
        head, _, rest = self.printed.partition("\n")
        return rest.strip() if "threads for kernels" in head else self.printed


def read_record(name: str) -> Record:
    command, commit, printed = (RESULTS / f"{name}.txt").read_text(encoding="utf-8").split("\n", 2)
    return Record(command.removeprefix("$ "), commit.removeprefix("# commit "), printed.strip())


def source(name: str) -> str:
    record = read_record(name)
    return f"`{record.command}` ([record](results/{name}.txt), {record.commit})"


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table."""
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def workers(record: Record) -> str:
    """The range of the gains of Dask workers, and the largest cone of each kind."""
    rows = rows_of(record.results)
    last = {name.split(", ", 1)[1].partition(",")[0]: name for name in rows}
    gains = [float(row["busiest, and calling thread"].split()[2]) for row in rows.values()]
    columns = ["in memory", "tasks of two workers", "busiest, and calling thread"]
    shown = table(
        ["cone of", *columns],
        [(last[kind], *(rows[last[kind]][one] for one in columns)) for kind in list(last)[:3]],
    )
    return f"{min(gains):g} to {max(gains):g} times faster for {len(rows)} cones.\n\n{shown}"


def missing(record: Record) -> str:
    """The error of each method on each set, as a share of that of the means."""
    errors: dict[str, dict[str, str]] = {}
    for line in record.results.splitlines()[1:]:
        name, method, error = re.findall(r"(\S+) +(.+?) +([\d.]+) +[\d.]+ s", line)[0]
        errors.setdefault(name, {})[method] = f"{float(error):.2f}"
    methods = list(dict.fromkeys(method for row in errors.values() for method in row))
    rows = [(name, *(row.get(method, "-") for method in methods)) for name, row in errors.items()]
    return table(["set", *methods], rows)


def hulls(record: Record) -> str:
    """The agreement with Qhull, and the times beside the peer's."""
    agreement, *lines = record.results.splitlines()
    form = r"(.+?): (\d+) vertices in ([\d.]+ s) .*?, (.+) ([\d.]+ s): (\d+)x"
    rows = [re.fullmatch(form, line).groups() for line in lines]
    shown = table(["points", "vertices", "ours", "peer", "its time", "times faster"], rows)
    return f"{agreement[0].upper()}{agreement[1:]}.\n\n{shown}"


def receptor(record: Record) -> str:
    """Our error beside the recorded one, and the time of ten starts."""
    lines = [line.split() for line in record.results.splitlines()[1:]]
    ratios, seconds = ([float(line[k]) for line in lines] for k in (-1, 4))
    return (
        f"For {lines[0][1]} to {lines[-1][1]} factors of each table ours is {min(ratios):.4f} to"
        f" {max(ratios):.4f} times the recorded error, in {min(seconds):g} to {max(seconds):g} s."
    )


def nmf(record: Record) -> str:
    """How much faster than scikit-learn, and than multiplicative updates."""
    rows = []
    for part in re.split(r"\n(?=[A-Z])", record.results):
        name, *lines = part.splitlines()
        ours, theirs = (re.findall(r", ([\d.]+ s)", line) for line in lines[:1] * 2)
        gains = [re.findall(r"([\d.]+) times faster", line)[-1] for line in lines]
        rows.append((name, ours[0], theirs[1], gains[0], gains[1]))
    heads = ("HierarchicalNMF", "scikit-learn CD", "times faster", "EM-ONMF, times faster than MU")
    return table(["table", *heads], rows)


def sample_samson(record: Record) -> str:
    """Times of the pixel purity index there and here."""
    theirs, ours = re.findall(r"PPI ([\d.]+ s), the same here ([\d.]+ s)", record.printed)[0]
    proven = re.findall(r"bound: ([\d.]+ s)", record.printed)[0]
    return (
        f"On SAMSON with 1024 functionals PPI takes {theirs}, the same here {ours}, and"
        f" Cone.sample with proof and bound {proven} of processor time."
    )


def rows_of(printed: str) -> dict[str, dict[str, str]]:
    """The rows of the first Markdown table in a text, by their first cell; without means."""
    lines = [line.strip("| ").split(" | ") for line in printed.splitlines() if line[:1] == "|"]
    return {
        row[0]: dict(zip(lines[0][1:], row[1:], strict=False))
        for row in lines[2:]
        if not row[0].startswith("mean")
    }


# -- clusters -------------------------------------------------------------------------------------


def scoreboard() -> Scoreboard:
    return make_scoreboard(read(RESULTS / "scoreboard.jsonl"))


def clusters() -> str:
    return brief(scoreboard())


def clusters_lost(board: Scoreboard) -> dict[str, tuple[str, float]]:
    """For each set on which another method has a higher mean: the best of these, and its mean."""
    lost = {}
    for row in board.rows:
        means = {c: cell.mean for (r, c), cell in board.cells.items() if r == row}
        rivals = {c: mean for c, mean in means.items() if c[0] not in ("paper", "ours")}
        best = max(rivals, key=lambda column: rivals[column])
        if round(rivals[best], 3) > round(means[OURS], 3):
            lost[row] = (best[1], rivals[best])
    return lost


def ablation() -> str:
    """The mean purity of every variant of the recipe."""
    values: dict[str, list[float]] = defaultdict(list)
    for record in read(RESULTS / "ablation.jsonl"):
        values[record.method].append(record.purity)
    rows = [(name, f"{np.mean(purities):.3f}") for name, purities in values.items()]
    return table(["recipe", "mean purity"], rows)


def left_out() -> str:
    """The constants of each set chosen on the other sets."""
    score, chosen = leave_one_out(read(RESULTS / "constants.jsonl"))
    settings = [setting for setting, _ in chosen.values()]
    usual = max(set(settings), key=settings.count)
    others = [f"on {name} {s} ({v:.3f})" for name, (s, v) in chosen.items() if s != usual]
    return (
        f"Mean purity with one set left out: {score:.3f}. {usual!r} is chosen"
        f" {settings.count(usual)} times of {len(settings)}; {', '.join(others)}."
    )


# -- cones ----------------------------------------------------------------------------------------

CONE = re.compile(
    r"^(\S+) +(\d+) x (\d+) +rays +(\d+) verified \| cone +([\d.]+) s .*?\| (.*?) +([\d.]+) s: +"
    r"([\d.]+)(x faster| of it) \| verify +([\d.]+) s",
    re.MULTILINE,
)


@dataclass(frozen=True)
class ConeRun:
    name: str
    n_points: int
    dim: int
    n_rays: int
    seconds: float
    peer: str
    peer_seconds: float
    ratio: float
    faster: str
    verify: float


def cone_runs(record: Record) -> list[ConeRun]:
    return [
        ConeRun(a, int(b), int(c), int(d), float(e), f, float(g), float(h), i, float(j))
        for a, b, c, d, e, f, g, h, i, j in CONE.findall(record.printed)
    ]


def cones(record: Record) -> str:
    """For each peer the ratios over all tables."""
    by_peer: dict[str, list[ConeRun]] = defaultdict(list)
    for run in cone_runs(record):
        by_peer[run.peer.split(" (")[0]].append(run)
    rows = []
    for peer, runs in by_peer.items():
        low, high = (pick(runs, key=lambda run: run.ratio) for pick in (min, max))
        unit = "times faster" if "faster" in low.faster else "of it"
        slowest = max(runs, key=lambda run: run.seconds)
        rows.append(
            (
                f"{len(runs)}: {', '.join(run.name for run in runs)}",
                peer,
                f"{low.ratio:g} ({low.name}) to {high.ratio:g} ({high.name}) {unit}",
                f"{slowest.seconds:g} s ({slowest.name}), verified in {slowest.verify:g} s",
            )
        )
    return table(["tables", "peer", "our time", "the longest"], rows)


AWKWARD = re.compile(
    r"^(\S+) .*?exact +([\d.]+) s.*?product +[\d.]+ s: exact ([\d.]+), verified ([\d.]+),"
    r" quick ([\d.]+)",
    re.MULTILINE,
)


def awkward(record: Record) -> str:
    runs = [(name, *map(float, numbers)) for name, *numbers in AWKWARD.findall(record.printed)]
    exact = np.array([run[2] for run in runs])
    slow = max(runs, key=lambda run: run[1])
    many = [run for run in runs if run[2] > 20]
    longest = max(run[1] for run in many)
    return (
        f"On {len(runs)} tables the exact cone takes {np.median(exact):.1f} products in the median,"
        f" and the quick one at most {max(run[4] for run in runs):.2f}. {len(many)} exact cones"
        f" take more than 20 products; these are small, and take at most {longest:.1f} s"
        f" ({', '.join(run[0] for run in many)}). The longest is {slow[0]}, {slow[1]:.0f} s,"
        f" {slow[2]:.2f} products."
    )


# -- least squares --------------------------------------------------------------------------------


def nnls_ratios(record: Record) -> dict[str, list[float]]:
    """SciPy's time over ours, by the number of right-hand sides."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for count, ratio in re.findall(r"\b(\d+) (?:uniform|normal) +([\d.]+)x", record.printed):
        ratios[count].append(float(ratio))
    return dict(ratios)


def nnls(record: Record) -> str:
    rows = [
        (count, *(f"{f(ratios):.1f}" for f in (min, np.median, max)))
        for count, ratios in nnls_ratios(record).items()
    ]
    many = re.search(r"^(200 x 20, 10000 right-hand sides): ([\d.]+)x", record.printed, re.M)
    assert many is not None
    return (
        table(["right-hand sides", "smallest ratio", "median", "largest"], rows)
        + f"\n\n{many[1]}: {many[2]} times faster."
    )


def structured_counts(record: Record) -> tuple[int, int]:
    """In how many cases SciPy is faster, and of how many."""
    slower = re.search(r"slower than SciPy: (\d+) of (\d+)", record.printed)
    assert slower is not None
    return int(slower[1]), int(slower[2])


def nnls_structured(record: Record) -> str:
    slower, count = structured_counts(record)
    medians = {
        f"{kind}, {side}": float(cell.split("median ")[1])
        for kind, row in rows_of(record.printed).items()
        for side, cell in row.items()
    }
    below = [f"{case} ({median:g})" for case, median in medians.items() if median < 1]
    return (
        f"SciPy is faster in {slower} of {count} cases. The median ratio is"
        f" {min(medians.values()):g} to {max(medians.values()):g} over {len(medians)} kinds of"
        f" columns and right-hand sides; it is below 1 for {'; '.join(below)}."
    )


def condition_counts(record: Record) -> dict[str, int]:
    total = next(line for line in record.printed.splitlines() if line.startswith("all "))
    counts = {"problems": int(total.split()[1])}
    for part in total.split(": ", 1)[1].split(" | "):
        name, number = part.rsplit(" ", 1)
        counts[name] = int(number)
    return counts


def nnls_condition(record: Record) -> str:
    counts = condition_counts(record)
    names = [name for name in counts if name != "problems"]
    return table(names, [[counts[name] for name in names]]).replace(">", "\\>")


# -- factorizations -------------------------------------------------------------------------------

FASTER = re.compile(r"^([\w-]+: \(.*?), rank.*?: ([\d.]+) times faster", re.MULTILINE)


def ccnmf(record: Record) -> str:
    ratios = {name: float(ratio) for name, ratio in FASTER.findall(record.printed)}
    values = list(ratios.values())
    slower = [f"{name}: {ratio:g}" for name, ratio in ratios.items() if ratio < 1]
    return (
        f"scikit-learn's time over ours on {len(values)} tables: {min(values):g} to"
        f" {max(values):g}, in the median {np.median(values):.1f}."
        + (f" Slower than scikit-learn: {'; '.join(slower)}." if slower else "")
    )


ccnmf_synthetic = ccnmf


# -- mixtures -------------------------------------------------------------------------------------


def mixture_angles(record: Record) -> dict[str, dict[str, float]]:
    """The mean angle by set and method."""
    angles = {}
    for block in record.printed.split("\n\n")[1:]:
        name = block.split(":")[0].strip()
        found = re.findall(r"^  (\S.*?) +([\d.]+) degrees", block, re.MULTILINE)
        angles[name] = {method: float(angle) for method, angle in found}
    return angles


SHOWN = (
    "Unmixing",
    "MinVolumeNMF",
    "SeparableNMF",
    "SNPA",
    "VCA, mean of 20",
    "SPA, unit length",
    "scikit-learn NMF",
)


def mixtures(record: Record) -> str:
    angles = mixture_angles(record)
    rows = [(m, *(f"{angles[name][m]:.2f}" for name in angles)) for m in SHOWN]
    return table(["degrees", *angles], rows)


FAMILY_METHODS = (
    "volume 1",
    "volume 3",
    "SeparableNMF",
    "epsilon-cone, mass",
    "SNPA",
    "VCA",
    "scikit-learn NMF",
)


def mixtures_family(record: Record) -> str:
    lines = [line for line in record.printed.splitlines() if ": SPA, raw " in line]
    rows = [[name.replace("volume", "MinVolumeNMF, volume")] for name in FAMILY_METHODS]
    for line in lines:
        for row, method in zip(rows, FAMILY_METHODS, strict=True):
            row += re.findall(rf", {method} ([\d.]+)", line)
    return table(["degrees", *(line.partition(":")[0] for line in lines)], rows)


def mixtures_bad(record: Record) -> str:
    changes = []
    for line in record.results.splitlines():
        clean, *spoiled = [float(angle) for angle in re.findall(r"[\d.]+(?=[,;]| degrees)", line)]
        changes += [abs(angle - clean) for angle in spoiled]
    return f"The mean angle changes by at most {max(changes):.2f} degrees in {len(changes)} runs."


def signatures(record: Record) -> str:
    counts: dict[str, list[str]] = defaultdict(list)
    for method, right in re.findall(r"[:;] ([\w, -]+?) (\d+) of 15", record.printed):
        counts[method].append(right)
    return "; ".join(f"{method} {', '.join(right)}" for method, right in counts.items()) + "."


# -- how many, how sure ---------------------------------------------------------------------------


def ranks(record: Record) -> str:
    cells: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for line in record.results.splitlines()[1:]:
        family, noise, method, right, near, _ = line.split()
        cells[family, noise][method] = f"{right} ({near})"
    methods = list(next(iter(cells.values())))
    rows = [(*key, *(row[method] for method in methods)) for key, row in cells.items()]
    return table(["table", "noise", *methods], rows)


def consensus(record: Record) -> str:
    found = [
        [float(v) for v in re.findall(rf"[:;] {name} ([\d.]+) \(", record.printed)]
        for name in ("consensus of 100", "one random start", "epsilon-cone")
    ]
    best, *others = found
    losses = [max(np.subtract(best, other)) for other in others]
    return (
        f"The consensus reaches {min(best):.3f} to {max(best):.3f} in {len(best)} families. One"
        f" random start is at most {losses[0]:.3f} below it, one start from the epsilon-cone"
        f" {losses[1]:.3f}."
    )


def bootstrap(record: Record) -> str:
    found = [
        (name, float(components), float(encodings))
        for name, components, encodings in re.findall(
            r"^(.*?): components ([\d.]+) .*?encodings ([\d.]+)", record.results, re.MULTILINE
        )
    ]
    kept, broken = found[:-2], found[-2:]
    ranges = [
        f"{min(row[k] for row in kept):.3f} to {max(row[k] for row in kept):.3f}" for k in (1, 2)
    ]
    return (
        f"Where the assumptions hold, of {len(kept)} families: components {ranges[0]}, encodings"
        f" {ranges[1]}. Where they do not: "
        + "; ".join(f"{name}: {a:.3f} and {b:.3f}" for name, a, b in broken)
        + "."
    )


# -- novelty and labels ---------------------------------------------------------------------------

NOVELTY_GROUPS = {  # and how many sets; what is not listed is planted
    PAPER_SETS: "AMLALL DUKE KHAN ORL UMIST COIL-20 YALEB MED CITESEER WEBKB4 7SECTORS REUTERS",
    "scikit-learn's four": "digits wine breast-cancer iris",
    "five others": "WAP SC_POLLEN RNAMIX_CELSEQ2 mnist pines",
}


def novelty_areas() -> dict[str, dict[str, float]]:
    """The area under the curve by set and detector."""
    rows: dict[str, dict[str, str]] = {}
    for name in ("novelty", "novelty-other"):
        rows |= rows_of(read_record(name).printed)
    return {name: {d: float(area) for d, area in row.items()} for name, row in rows.items()}


def novelty_means(areas: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    groups = {group: names.split() for group, names in NOVELTY_GROUPS.items()}
    known = {name for names in groups.values() for name in names}
    groups["planted"] = [name for name in areas if name not in known]
    return {
        detector: {
            group: float(np.mean([areas[name][detector] for name in names]))
            for group, names in groups.items()
        }
        for detector in next(iter(areas.values()))
    }


def novelty() -> str:
    areas = novelty_areas()
    means = novelty_means(areas)
    ours = next(iter(means))
    rows = []
    for detector, by_group in means.items():
        better = [name for name in areas if areas[name][detector] > areas[name][ours]]
        beaten = "" if detector == ours else f"{len(better)} of {len(areas)}"
        rows.append((detector, *(f"{mean:.3f}" for mean in by_group.values()), beaten))
    heads = ["detector", *next(iter(means.values())), f"better than {ours} on"]
    worst = {name: max(row[d] for d in row if d != ours) - row[ours] for name, row in areas.items()}
    name = max(worst, key=lambda name: worst[name])
    best = max(areas[name], key=lambda detector: areas[name][detector])
    return (
        f"{source('novelty')} and {source('novelty-other')}\n\n{table(heads, rows)}\n\nThe largest"
        f" loss: {name}, {areas[name][ours]:.3f} against {areas[name][best]:.3f} of {best}."
    )


ASIDE = ("above matched", "+-", "seconds")  # columns that are not of a model


def label_accuracies(record: Record) -> dict[str, dict[str, list[float]]]:
    """Accuracies with 1, 3 and 5 labels for each class, by set and model."""
    return {
        name: {m: [float(v) for v in cell.split()] for m, cell in row.items() if m not in ASIDE}
        for name, row in rows_of(record.printed).items()
    }


def few_labels(record: Record) -> str:
    accuracies = label_accuracies(record)
    names = {PAPER_SETS: NOVELTY_GROUPS[PAPER_SETS].split()}
    names["ten others"] = [name for name in accuracies if name not in names[PAPER_SETS]]
    ours, *_ = models = list(next(iter(accuracies.values())))
    rows = []
    for model in models:
        means = [
            " ".join(f"{v:.3f}" for v in np.mean([accuracies[n][model] for n in group], axis=0))
            for group in names.values()
        ]
        ahead = sum(np.greater(row[model], row[ours]) for row in accuracies.values())
        better = "" if model == ours else " ".join(map(str, np.asarray(ahead)))
        rows.append((model, *means, better))
    return table(["model", *names, f"better on so many of {len(accuracies)}"], rows)


# -- how it scales --------------------------------------------------------------------------------


def read_lines(name: str) -> list[dict]:
    lines = (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def exponent(records: list[dict]) -> float:
    """Slope of the logarithms over the upper half of the sizes (at least three)."""
    kept = records[-max(3, (len(records) + 1) // 2) :]
    sizes, seconds = ([record[key] for record in kept] for key in ("x", "seconds"))
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def scaling() -> str:
    series: dict[str, list[dict]] = defaultdict(list)
    for record in read_lines("scaling"):
        series[record["series"]].append(record)
    rows = [
        (
            name,
            f"{exponent(records):.2f}",
            records[-1]["x"],
            f"{records[-1]['seconds']:.2f} s",
            f"{records[-1]['extra_mib']} MiB",
        )
        for name, records in series.items()
    ]
    return table(["varied", "exponent", "at", "time", "memory above the data"], rows)


def large(record: Record) -> str:
    """The lines about the cone, the clusters and the verification."""
    kept = re.findall(r"^(?:cone|clusters|verify|CC-NMF).*", record.printed, re.MULTILINE)
    return "```text\n" + "\n".join(kept) + "\n```"


stream = corpus = large


# -- README ---------------------------------------------------------------------------------------


def results() -> str:
    """What each part does beside its best rival, and where it loses."""
    board = scoreboard()
    means = {c: mean for c, mean in board.means().items() if c[0] != "paper"}
    ours = means.pop(OURS)
    rival = max(means, key=lambda column: means[column])
    lost = [f"{name} ({rival}, {mean:.3f})" for name, (rival, mean) in clusters_lost(board).items()]
    rows = [
        (
            "clusters: purity, the paper's 12 sets",
            f"`GraphCCNMF` {ours:.3f}",
            f"{rival[1]} {means[rival]:.3f}",
            ", ".join(lost),
        ),
        few_labels_row(),
        novelty_row(),
        *mixture_rows(),
        nnls_row(),
        ccnmf_row(),
    ]
    return table(["task", "conecollapse", "best other method on average", "where it loses"], rows)


def few_labels_row() -> tuple[str, ...]:
    accuracies = label_accuracies(read_record("few-labels"))
    ours, *others = next(iter(accuracies.values()))
    rivals = [model for model in others if "matched" not in model and "truth" not in model]
    three = {m: np.mean([row[m][1] for row in accuracies.values()]) for m in (ours, *rivals)}
    best = max(rivals, key=lambda model: three[model])
    lost = [n for n, row in accuracies.items() if max(row[m][1] for m in rivals) > row[ours][1]]
    return (
        f"3 labels for each class: accuracy, {len(accuracies)} sets",
        f"`GraphCCNMF` {three[ours]:.3f}",
        f"{best} {three[best]:.3f}",
        ", ".join(lost),
    )


def novelty_row() -> tuple[str, ...]:
    areas = novelty_areas()
    measured = " ".join(NOVELTY_GROUPS.values()).split()
    means = {d: np.mean([areas[name][d] for name in measured]) for d in next(iter(areas.values()))}
    ours, *rivals = means
    best = max(rivals, key=lambda detector: means[detector])
    lost = {n: max(areas[n][d] for d in rivals) - areas[n][ours] for n in measured}
    worst = sorted(lost, key=lambda name: -lost[name])[:3]
    return (
        f"novelty: area under the curve, {len(measured)} sets",
        f"`ConeNovelty` {means[ours]:.3f}",
        f"{best} {means[best]:.3f}",
        f"{', '.join(worst)} and {sum(d > 0 for d in lost.values()) - len(worst)} more, by less",
    )


def mixture_rows() -> list[tuple[str, ...]]:
    angles = mixture_angles(read_record("mixtures"))
    ours = "Unmixing"
    own = (ours, "MinVolumeNMF", "SeparableNMF")
    rivals = [method for method in next(iter(angles.values())) if method not in own]
    mean = {m: np.mean([row[m] for row in angles.values()]) for m in (ours, *rivals)}
    best = min(rivals, key=lambda method: mean[method])
    lost = [
        f"{n} ({m} {row[m]:.1f})" for n, row in angles.items() for m in row if row[m] < row[ours]
    ]
    return [
        (
            f"mixtures: degrees to the truth, {', '.join(angles)}",
            f"`{ours}` {mean[ours]:.1f}",
            f"{best} {mean[best]:.1f}",
            ", ".join(lost),
        )
    ]


def nnls_row() -> tuple[str, ...]:
    ratios = [ratio for many in nnls_ratios(read_record("nnls")).values() for ratio in many]
    slower, count = structured_counts(read_record("nnls-structured"))
    return (
        f"`nnls`: speed, {len(ratios)} random problems",
        f"{np.median(ratios):.0f} times SciPy's (median; {min(ratios):.1f} to {max(ratios):.0f})",
        "SciPy 1",
        f"{slower} of {count} problems with dependent or awkward columns",
    )


def ccnmf_row() -> tuple[str, ...]:
    found = [
        pair
        for n in ("ccnmf", "ccnmf-synthetic")
        for pair in FASTER.findall(read_record(n).printed)
    ]
    ratios = [float(ratio) for _, ratio in found]
    slower = [name.replace(":", "") for name, ratio in found if float(ratio) < 1]
    return (
        f"`CCNMF`: speed, {len(ratios)} tables",
        f"{np.median(ratios):.1f} times scikit-learn's NMF (median)",
        "scikit-learn 1",
        ", ".join(slower),
    )


def proofs() -> str:
    """What is proven, how it is checked, and on what."""
    record = read_record("cones")
    runs = cone_runs(record)
    largest = max(runs, key=lambda run: run.n_points * run.dim)
    counts = condition_counts(read_record("nnls-condition"))
    rows = [
        (
            "the rays generate every point, and none can be left out",
            "`cone.verify(P)`: plain NumPy, no code of the solvers",
            f"{len(runs)} tables, up to {largest.n_points} points in {largest.dim} dimensions:"
            f" all verified",
        ),
        (
            "an answer of `nnls` that is called converged is optimal",
            "a lower bound on the residual of every x >= 0",
            f"{counts['problems']} ill-conditioned problems, checked in exact arithmetic:"
            f" {counts['wrong']} wrong, {counts['not converged']} not called converged",
        ),
        (
            "a new sample like the trusted ones is called novel with a probability of at most 5 %",
            "[a proof](docs/novelty.md#when-is-a-sample-called-novel)",
            "any distribution, any number of samples",
        ),
    ]
    return table(["claim", "how it is checked", "on what"], rows)
