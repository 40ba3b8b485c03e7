"""Where people work: AnnData objects and files, 10x folders, texts; in by the command and back
out."""

from __future__ import annotations

import gzip
import json
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from conecollapse import GraphCCNMF, InvalidInputError, plots, scverse
from conecollapse.cli.commands import run as run_command
from conecollapse.io import read_labels, read_table
from conecollapse.runs import cluster, prepare, save, verify
from conecollapse.runs.clustering import shares_of_clusters

RNG = np.random.default_rng(0)
KIND = np.repeat([0, 1, 2], 10)
COUNTS = RNG.poisson(0.3 + 6.0 * (np.arange(24) // 8 == KIND[:, None])).astype(np.float32)
GENES, CELLS = [f"gene{j}" for j in range(24)], [f"cell{i}" for i in range(30)]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(capsys):
    """Run the command: exit code, stdout, stderr."""

    def run(*arguments):
        code = run_command([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def adata():
    anndata = pytest.importorskip("anndata")
    obs = pd.DataFrame({"cell_type": pd.Categorical([f"type{k}" for k in KIND])}, index=CELLS)
    data = anndata.AnnData(sp.csr_matrix(np.log1p(COUNTS)), obs=obs, var=pd.DataFrame(index=GENES))
    data.layers["counts"] = sp.csr_matrix(COUNTS)
    return data


def of_kinds(labels) -> bool:
    """Whether these are the three kinds of cells."""
    labels = np.asarray(labels).astype(str)
    return len(set(labels)) == 3 and all(len(set(labels[k == KIND])) == 1 for k in range(3))


class TestScverse:
    def test_clusters_are_written_in_the_manner_of_scanpy(self, adata, tmp_path):
        scverse.cluster(adata, 3)
        assert adata.obs["conecollapse"].dtype == "category"
        assert of_kinds(adata.obs["conecollapse"])
        assert adata.obsm["X_conecollapse"].shape == (30, 3)
        assert adata.varm["conecollapse"].shape == (24, 3)
        found = adata.uns["conecollapse"]
        k = int(adata.obs["conecollapse"].iloc[0])
        assert set(found["top_genes"][k][:8]) == set(GENES[:8])
        assert found["parameters"]["n_clusters"] == 3
        assert found["cone"]["n_rays"] == len(found["cone"]["ray_indices"])
        adata.write_h5ad(tmp_path / "written.h5ad")  # all of it can be stored
        import anndata

        again = anndata.read_h5ad(tmp_path / "written.h5ad")
        assert (
            again.obs["conecollapse"].astype(str).tolist()
            == adata.obs["conecollapse"].astype(str).tolist()
        )

    def test_a_layer_and_highly_variable_genes_can_be_chosen(self, adata):
        adata.var["highly_variable"] = np.arange(24) % 2 == 0
        scverse.cluster(adata, 3, layer="counts", key_added="mine")
        assert of_kinds(adata.obs["mine"])
        assert (adata.varm["mine"][1::2] == 0).all()
        assert set(np.ravel(adata.uns["mine"]["top_genes"])) <= set(GENES[::2])
        scverse.cluster(adata, 3, use_highly_variable=False)
        assert adata.varm["conecollapse"][1::2].any()

    def test_programs_are_sets_of_genes_with_usages(self, adata):
        scverse.programs(adata, 3, layer="counts", n_runs=3)
        usage, found = adata.obsm["X_programs"].to_numpy(), adata.uns["programs"]
        np.testing.assert_allclose(usage.sum(axis=1), 1)
        assert of_kinds(usage.argmax(axis=1))
        sets = {frozenset(genes[:8]) for genes in found["top_genes"].tolist()}
        assert sets == {frozenset(GENES[8 * k : 8 * k + 8]) for k in range(3)}
        spectra = adata.varm["programs"]
        np.testing.assert_allclose(spectra.sum(axis=0), 1e6)
        assert spectra.index.tolist() == GENES
        np.testing.assert_array_equal(adata.obs["programs_1"], usage[:, 1])
        z = adata.varm["programs_z"].to_numpy()
        assert (z.argmax(axis=1) == spectra.to_numpy().argmax(axis=1)).all()
        assert found["stability"].min() > 0.9

    def test_a_program_that_is_a_batch_is_said_to_be_one(self, adata):
        batch = np.arange(30) % 2
        counts = sp.csr_array(adata.layers["counts"]).toarray()
        counts[batch == 1, ::4] += 60  # every fourth gene, in half of the cells
        adata.layers["counts"] = counts
        adata.obs["batch"] = np.array(["a", "b"])[batch]
        with pytest.warns(UserWarning, match=r"programs_\d is a batch .* 'batch' explains"):
            scverse.programs(adata, 4, layer="counts", n_runs=3, batch_key="batch")
        shares = adata.uns["programs"]["batch_share"]
        assert (shares > 0.5).sum() == 1
        usage = adata.obs[f"programs_{shares.argmax()}"]
        assert usage[batch == 1].min() > usage[batch == 0].max()

    def test_known_types_of_some_cells_guide_the_others(self, adata, tmp_path):
        few = np.array(["unknown"] * 30, dtype=object)
        known = adata.obs["cell_type"].astype(str).to_numpy()
        first = [np.flatnonzero(known == kind)[0] for kind in np.unique(known)]
        few[first] = known[first]
        adata.obs["few"] = few
        scverse.cluster(adata, 3, guide_key="few")
        assert (adata.obs["conecollapse"].astype(str) == known).all()
        probabilities = adata.obsm["conecollapse_probabilities"]
        assert probabilities.columns.tolist() == sorted(set(known))
        np.testing.assert_allclose(probabilities.sum(axis=1), 1)
        adata.write_h5ad(tmp_path / "guided.h5ad")
        adata.obs["none"] = "unknown"
        for key, message in (
            ("none", "labels no cell"),
            ("missing", "obs has no column 'missing'"),
        ):
            with pytest.raises(InvalidInputError, match=message):
                scverse.cluster(adata, 3, guide_key=key)

    def test_results_are_drawn_on_an_embedding(self, adata):
        adata.obsm["X_umap"] = RNG.random((30, 2))
        scverse.cluster(adata, 3)
        scverse.programs(adata, 3, layer="counts", n_runs=2)
        figure = scverse.draw(adata, target="cell_type")
        for k, trace in enumerate(figure.data[:3]):
            inside = adata.obs["conecollapse"] == str(k)
            np.testing.assert_allclose(trace.x, adata.obsm["X_umap"][inside, 0], rtol=1e-6)
            assert all("known as type" in text for text in trace.text)
        maps = scverse.draw(adata, "programs", basis="umap")
        np.testing.assert_allclose(maps.data[1].marker.color, adata.obs["programs_1"], rtol=1e-6)
        assert maps.layout.annotations[1].text.startswith("1: gene")
        for arguments, message in (
            ({"basis": "pca"}, "obsm has no embedding 'pca'; it has 'X_umap'"),
            (
                {"target": "louvain"},
                "obs has no column 'louvain'; it has 'cell_type', 'conecollapse'",
            ),
            (
                {"key": "leiden"},
                r"uns\['leiden'\] holds no result of scverse.cluster or scverse.programs",
            ),
        ):
            with pytest.raises(InvalidInputError, match=message):
                scverse.draw(adata, **arguments)

    def test_backed_files_give_the_same(self, adata, tmp_path):
        import anndata

        adata.var["highly_variable"] = np.arange(24) % 3 > 0
        adata.write_h5ad(tmp_path / "cells.h5ad")
        backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
        for use in (True, False):
            scverse.cluster(adata, 3, use_highly_variable=use)
            scverse.cluster(backed, 3, use_highly_variable=use)
            assert backed.obs["conecollapse"].tolist() == adata.obs["conecollapse"].tolist()
        scverse.programs(backed, 3, layer="counts", n_runs=2)
        assert of_kinds(backed.obsm["X_programs"].to_numpy().argmax(axis=1))
        backed.file.close()

    def test_a_cell_without_counts_has_no_label(self, adata):
        import anndata

        values = adata.X.toarray()
        values[4] = 0
        empty = anndata.AnnData(values)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scverse.cluster(empty, 3)
        assert empty.obs["conecollapse"].isna().tolist() == [i == 4 for i in range(30)]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"layer": "spliced"}, "no layer 'spliced'; it has 'counts'"),
            ({"use_highly_variable": True}, "var has no column 'highly_variable'"),
        ],
    )
    def test_mistakes_are_told_in_one_sentence(self, adata, arguments, message):
        with pytest.raises(InvalidInputError, match=message):
            scverse.cluster(adata, 3, **arguments)

    def test_other_objects_are_refused(self):
        with pytest.raises(InvalidInputError, match="needs an AnnData object; got ndarray"):
            scverse.programs(COUNTS, 3)


def test_a_map_on_an_embedding(adata):
    model = GraphCCNMF(3, random_state=0).fit(adata)
    place = RNG.random((30, 3))
    figure = plots.cluster_map(model, adata, embedding=place)
    drawn = np.concatenate([np.column_stack([trace.x, trace.y]) for trace in figure.data[:3]])
    assert len(drawn) == 30
    np.testing.assert_allclose(np.sort(drawn[:, 0]), np.sort(place[:, 0]), rtol=1e-6)
    with pytest.raises(
        InvalidInputError,
        match=(
            r"embedding has shape \(29, 3\); expected two finite numbers for each of the 30 samples"
        ),
    ):
        plots.cluster_map(model, adata, embedding=place[1:])


class TestCommand:
    def test_h5ad_in_and_out(self, here, adata, command):
        import anndata

        adata.write_h5ad(here / "cells.h5ad")
        options = [
            "--layer",
            "counts",
            "--normalize",
            "cells",
            "--label-column",
            "cell_type",
            "--no-report",
        ]
        code, out, err = command(
            "cluster", "cells.h5ad", "-k", 3, *options, "--write-h5ad", "out.h5ad"
        )
        assert (code, err) == (0, "")
        assert "3 clusters of 10, 10, 10 samples; purity 1.000" in out
        assert "data and results in out.h5ad" in out
        written = anndata.read_h5ad(here / "out.h5ad")
        assert of_kinds(written.obs["conecollapse"])
        assert "counts" in written.layers
        assert "cell_type" in written.obs
        facts = json.loads((here / "cells-clusters" / "run.json").read_text())
        assert facts["data"]["layer"] == "counts"
        assert command("verify", "cells-clusters")[0] == 0
        assert command("rays", "cells.h5ad", "--layer", "counts", "--out", "r")[0] == 0
        assert command("verify", "r")[0] == 0

    def test_a_10x_folder(self, here, command):
        folder = here / "filtered"
        folder.mkdir()
        entries = sp.coo_array(COUNTS.T)
        lines = [
            f"{i + 1} {j + 1} {int(value)}"
            for i, j, value in zip(*entries.coords, entries.data, strict=True)
        ]
        head = ["%%MatrixMarket matrix coordinate integer general", f"24 30 {entries.nnz}"]
        files = {
            "matrix.mtx.gz": "\n".join(head + lines),
            "features.tsv.gz": "\n".join(
                f"ENS{j}\t{name}\tGene Expression" for j, name in enumerate(GENES)
            ),
            "barcodes.tsv.gz": "\n".join(CELLS),
        }
        for name, text in files.items():
            (folder / name).write_bytes(gzip.compress((text + "\n").encode()))
        code, out, err = command(
            "cluster",
            "filtered",
            "-k",
            3,
            "--normalize",
            "cells",
            "--no-report",
            "--write-h5ad",
            "x.h5ad",
        )
        assert (code, err) == (0, "")
        assert "30 samples, 24 features" in out
        assert read_table(folder).feature_names.tolist() == GENES
        assert command("verify", "filtered-clusters")[0] == 0
        (folder / "matrix.mtx.gz").write_bytes(
            gzip.compress("\n".join([*head, "1 1 -3", *lines[1:], ""]).encode())
        )
        with pytest.raises(InvalidInputError, match=r"matrix\.mtx\.gz"):
            read_table(folder)
        (folder / "barcodes.tsv.gz").unlink()
        code, _, err = command("cluster", "filtered", "-k", 3, "--force")
        assert code == 1
        assert (
            "has matrix.mtx.gz, but no barcodes.tsv (also .gz); a 10x folder needs all three files."
            in err
        )

    def test_normalizations_apply_in_order(self, here, command):
        np.save("counts.npy", COUNTS)
        command(
            "cluster",
            "counts.npy",
            "-k",
            3,
            "--normalize",
            "sum-samples",
            "--normalize",
            "log",
            "--no-report",
            "--out",
            "a",
        )
        command(
            "cluster", "counts.npy", "-k", 3, "--normalize", "cells", "--no-report", "--out", "b"
        )
        sums = [np.load(here / folder / "factors.npz")["components"] for folder in "ab"]
        np.testing.assert_array_equal(*sums)
        assert json.loads((here / "a" / "run.json").read_text())["preparation"]["normalize"] == [
            "sum-samples",
            "log",
        ]
        assert command("verify", "a")[0] == 0
        table = read_table(COUNTS)
        there, back = (
            prepare(table, ["log", "sum-samples"]).X,
            prepare(table, ["sum-samples", "log"]).X,
        )
        assert not np.allclose(there, back)
        code, _, err = command("cluster", "counts.npy", "-k", 3, "--normalize", "depth")
        assert code == 1
        assert (
            "--normalize must be one of unit-samples, sum-samples, max, log, cells; got 'depth'"
            in err
        )

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                ["cells.h5ad", "--layer", "spliced"],
                "cells.h5ad has no layer 'spliced'; it has 'counts'.",
            ),
            (
                ["cells.h5ad", "--label-column", "louvain"],
                "cells.h5ad has no column 'louvain' in obs; it has 'cell_type'.",
            ),
            (
                ["cells.h5ad", "--label-column", "x", "--labels", "x.txt"],
                "--labels and --label-column both name the known classes; give one of them.",
            ),
            (
                ["counts.npy", "--label-column", "x"],
                "--label-column x is for .h5ad files and beside --text-column; name a file",
            ),
            (
                ["reviews.csv", "--text-column", "body", "--label-column", "stars"],
                "reviews.csv has no column 'stars'; its heading is 'id', 'body'.",
            ),
            (
                ["counts.npy", "--layer", "counts"],
                "--layer counts is only for .h5ad files; leave it out for counts.npy.",
            ),
            (["cells.h5ad", "--write-h5ad", "cells.h5ad"], "--write-h5ad would replace the data"),
            (
                ["cells.h5ad", "--write-h5ad", "cells.csv"],
                "--write-h5ad takes the name of an .h5ad file",
            ),
            (
                ["empty"],
                (
                    "is a folder without matrix.mtx or matrix.mtx.gz (10x Genomics) and without"
                    " .txt files"
                ),
            ),
            (
                ["reviews.csv", "--text-column", "text"],
                "reviews.csv has no column 'text'; its heading is 'id', 'body'.",
            ),
            (
                ["counts.npy", "--text-column", "body"],
                "--text-column body is for .csv and .tsv files; counts.npy is none.",
            ),
            (["reviews.csv", "--text-column", "id"], "is this the right text?"),
            (
                ["letters.csv"],
                (
                    "holds 'Dear, all is well here' where a number belongs; if these are texts,"
                    " pass --text-column body."
                ),
            ),
        ],
    )
    def test_mistakes_are_told_in_one_sentence(self, here, adata, command, arguments, message):
        adata.write_h5ad(here / "cells.h5ad")
        np.save("counts.npy", COUNTS)
        (here / "empty").mkdir()
        (here / "reviews.csv").write_text("id,body\n1,good apple\n2,bad pear\n")
        (here / "letters.csv").write_text(
            'id,body\n1,"Dear, all is well here"\n2,And so it is here\n'
        )
        code, out, err = command("cluster", *arguments, "-k", 3)
        assert (code, out) == (1, "")
        assert message in err
        assert err.count("\n") == 1


FRUIT, ROCKS = (
    ["apple", "pear", "plum", "cherry", "orchard"],
    ["granite", "basalt", "quartz", "gneiss", "quarry"],
)


def texts(n: int = 12) -> list[str]:
    rng = np.random.default_rng(1)
    return [
        f"The {' '.join(rng.permutation(words)[:4])}, and more."
        for words in (FRUIT, ROCKS)
        for _ in range(n)
    ]


class TestTexts:
    def test_a_column_of_texts_gives_topics(self, here, command):
        written = [*texts(), "42!"]
        pd.DataFrame({"id": [f"r{i}" for i in range(25)], "stars": 3, "body": written}).to_csv(
            "reviews.csv", index=False
        )
        code, out, err = command("cluster", "reviews.csv", "-k", 2, "--text-column", "body")
        assert code == 0
        assert "25 samples, 10 features" in out
        assert "1 of 25 documents has no known words, and so no topic (label -1)." in out
        assert "sample 24 of X holds only zeros" in err
        rows = pd.read_csv(here / "reviews-clusters" / "labels.csv", dtype={"sample": str})
        assert rows["sample"].tolist() == [f"r{i}" for i in range(25)]
        assert len(set(rows["cluster"][:12])) == len(set(rows["cluster"][12:24])) == 1
        shares = rows[["share_0", "share_1"]].to_numpy()
        np.testing.assert_allclose(shares.sum(axis=1), [1.0] * 24 + [0.0])
        assert (shares[:24].argmax(axis=1) == rows["cluster"][:24]).all()
        page = (here / "reviews-clusters" / "report.html").read_text(encoding="utf-8")
        assert "Most typical texts:" in page
        assert ", and more." in page
        assert command("verify", "reviews-clusters")[0] == 0

    def test_a_column_beside_the_texts_holds_the_known_classes(self, here, command):
        kinds = ["first"] * 12 + ["second"] * 12
        frame = pd.DataFrame({"id": range(24), "text": texts(), "label": kinds})
        frame.to_csv("known.csv", index=False)
        columns = ("--text-column", "text", "--label-column", "label")
        code, out, _ = command("cluster", "known.csv", "-k", 2, *columns, "--no-report")
        assert code == 0
        assert "purity 1.000" in out
        rows = pd.read_csv(here / "known-clusters" / "labels.csv")
        assert rows["target"].tolist() == kinds

    @pytest.mark.parametrize("make", [list, tuple, np.array, pd.Series])
    def test_words_of_texts_in_memory_are_counted(self, make, here):
        pd.DataFrame({"text": texts()}).to_csv(here / "texts.csv", index=False)
        table, file = read_table(make(texts())), read_table("texts.csv", text_column="text")
        assert (table.X != file.X).nnz == 0
        assert table.features.tolist() == file.features.tolist()
        assert table.texts == tuple(texts())

    def test_a_folder_of_texts(self, here, command):
        (here / "letters").mkdir()
        for i, text in enumerate(texts()):
            (here / "letters" / f"letter{i:02}.txt").write_text(text, encoding="utf-8")
        (here / "letters" / "notes.md").write_text("not a letter")
        code, out, _ = command("cluster", "letters", "-k", 2, "--no-report")
        assert code == 0
        topics = {
            frozenset(line.split(": ")[1].split(", "))
            for line in out.splitlines()
            if line.startswith("  topic")
        }
        assert topics == {frozenset(FRUIT), frozenset(ROCKS)}
        assert command("verify", "letters-clusters")[0] == 0
        (here / "letters" / "letter00.txt").write_text("granite quarry", encoding="utf-8")
        assert "does not have the values" in command("verify", "letters-clusters")[2]

    def test_texts_are_escaped_in_the_report(self, here):
        written = [*texts(), *("<script>alert(1)</script> apple pear plum",) * 3]
        pd.DataFrame({"body": written}).to_csv("t.csv", index=False)
        run = cluster(prepare(read_table("t.csv", text_column="body"), tfidf=True), 2)
        from conecollapse.report import write_report

        save(run, here / "o", write_report)
        assert "<script>alert(1)" not in (here / "o" / "report.html").read_text(encoding="utf-8")
        assert verify(here / "o").n_samples == 27

    def test_shares_are_those_of_a_mixture(self):
        profiles = np.array([[3.0, 4.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
        X = np.array([[3.0, 4.0, 5.0, 0.0], [0.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
        np.testing.assert_allclose(
            shares_of_clusters(profiles, X), [[0.5, 0.5], [0.0, 1.0], [0.0, 0.0]], atol=1e-12
        )
        np.testing.assert_allclose(
            shares_of_clusters(profiles, sp.csr_array(X)), shares_of_clusters(profiles, X)
        )


def test_class_names_of_a_file_are_the_labels(tmp_path):
    np.savez(tmp_path / "d.npz", X=COUNTS, y=KIND, class_names=np.array(["a", "b", "c"]))
    assert set(read_labels(tmp_path / "d.npz", None, 30)[:10]) == {"a"}
    # no name for each
    np.savez(tmp_path / "d.npz", X=COUNTS, y=KIND + 1, class_names=np.array(["a", "b", "c"]))
    assert set(read_labels(tmp_path / "d.npz", None, 30)[:10]) == {"1"}


def test_views_in_parts_are_those_of_the_whole_table():
    """Rows at unit length, minus their mean, at unit length again, whatever part of the table is
    measured at once."""
    from conecollapse.affinity import views

    X = RNG.gamma(0.3, size=(1500, 3000)).astype(np.float32)
    assert X.size > views.AT_ONCE
    found = views._filled_views(X)[1].of(X)
    unit = np.sqrt(X).astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    centred = unit - unit.mean(axis=0)
    np.testing.assert_allclose(
        found, centred / np.linalg.norm(centred, axis=1, keepdims=True), rtol=1e-5, atol=1e-7
    )
    np.testing.assert_array_equal(
        views._variance_of_roots(X), np.sqrt(X).var(axis=0, dtype=np.float64)
    )


@pytest.mark.parametrize("spread", [1.0, 1e-3, 0.0])
def test_neighbours_in_float32_are_the_exact_ones(spread):
    """Also where many samples are nearly, or quite, the same: rounding decides nothing."""
    from sklearn.neighbors import NearestNeighbors

    from conecollapse.affinity.neighbors import nearest

    rng = np.random.default_rng(3)
    S = (1 + rng.random((6, 50))[np.arange(300) % 6] + spread * rng.random((300, 50))).astype(
        np.float32
    )
    index, distance = nearest(S, S, 5, "euclidean", exclude_self=True)
    wanted, _ = (
        NearestNeighbors(n_neighbors=5, algorithm="brute").fit(S.astype(np.float64)).kneighbors()
    )
    np.testing.assert_allclose(distance, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        np.linalg.norm(S[index].astype(float) - S[:, None], axis=2), wanted, rtol=1e-6, atol=1e-6
    )
    assert (index != np.arange(300)[:, None]).all()


def test_large_dense_tables_are_clustered_in_float32_with_one_view_in_memory(adata):
    from conecollapse.affinity.neighbors import are_large
    from conecollapse.affinity.views import Samples, choose_view

    class LargeSamples(Samples):
        are_large = True

    values = adata.X.toarray().astype(np.float64)
    wanted = GraphCCNMF(3, random_state=0).fit(values)
    found = GraphCCNMF(3, random_state=0).fit(values.astype(np.float32))
    np.testing.assert_array_equal(found.labels_, wanted.labels_)
    np.testing.assert_array_equal(found.predict(values[:5] + 0.01), found.labels_[:5])
    assert are_large((10_001, 10_000))
    assert not are_large((10_000, 10_000))
    one, both = (
        choose_view(kind(values, is_sparse=False), 3, np.random.default_rng(0))
        for kind in (LargeSamples, Samples)
    )
    assert one.view.name == both.view.name
    np.testing.assert_array_equal(one.samples, both.samples)
