"""Runs: what is saved can be checked, what changed is named, and nothing is ever half there."""

from __future__ import annotations

import csv
import errno
import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from conecollapse import (
    CCNMF,
    CertificateError,
    Cone,
    ConeFileError,
    EmptyDataWarning,
    GraphCCNMF,
    InvalidInputError,
    RunFolderError,
)
from conecollapse.io import read_table
from conecollapse.runs import Interrupted, check_folder, cluster, prepare, rays, save, verify
from conecollapse.runs.run import checksum, feature_hashes, rank_candidates
from conecollapse.runs.values import original

rng = np.random.default_rng(0)
X = np.kron(np.eye(3), np.ones((5, 8))) + 0.1 * rng.random((15, 24)).round(3)
GENES = [f"gene{j}" for j in range(21)] + ['<script>"a", b', "two\nlines", "=ünï"]
SAMPLES = [f"s{i}" for i in range(13)] + ['sample, "13"', "=14"]
TRUTH = ["abc"[i // 5] for i in range(15)]


@pytest.fixture
def genes(tmp_path):
    """Genes in rows, as such tables come."""
    path = tmp_path / "data" / "genes.csv"
    path.parent.mkdir()
    pd.DataFrame(X.T, index=pd.Index(GENES, name="gene"), columns=SAMPLES).to_csv(path)
    return path


@pytest.fixture
def saved(genes, tmp_path):
    run = cluster(read_table(genes), 3, target=TRUTH, rays=True)
    save(run, tmp_path / "out")
    return tmp_path / "out"


def rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


class TestPrepare:
    def test_no_preparation_leaves_the_table_unchanged(self):
        table = read_table(X)
        assert prepare(table) is table

    @pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
    def test_each_normalization(self, make):
        X = np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0], [0.0, 2.0, 6.0]])
        table = read_table(make(X))

        def prepared(**how):
            X = prepare(table, **how).X
            return X.toarray() if sp.issparse(X) else X

        np.testing.assert_allclose(
            np.linalg.norm(prepared(normalize="unit-samples"), axis=1), [1, 0, 1]
        )
        np.testing.assert_allclose(prepared(normalize="sum-samples").sum(axis=1), [7.5, 0, 7.5])
        np.testing.assert_allclose(prepared(normalize="max"), X / [3, 4, 6])
        np.testing.assert_allclose(prepared(normalize="log"), np.log1p(X))
        np.testing.assert_allclose(np.linalg.norm(prepared(tfidf=True), axis=1), [1, 0, 1])
        assert prepare(table, "max").raw is table
        assert prepare(table, "max").preparation == {"normalize": "max", "tfidf": False}

    def test_an_unknown_normalization_is_refused(self):
        with pytest.raises(
            InvalidInputError,
            match="normalize must be one of unit-samples, sum-samples, max, log, cells; got 'l2'",
        ):
            prepare(read_table(X), "l2")


class TestCluster:
    def test_a_run_has_all_that_a_report_needs(self, genes):
        stages = []
        run = cluster(
            read_table(genes),
            3,
            target=TRUTH,
            image_shape=(4, 6),
            rays=True,
            progress=lambda *event: stages.append(event[0]),
        )
        assert run.facts()["purity"] == 1
        assert isinstance(run.model, GraphCCNMF)
        assert run.labels is run.model.labels_
        assert run.cone.ray_names.tolist() == [GENES[j] for j in run.cone.ray_indices]
        assert run.cone.verify(X.T).n_rays == run.cone.n_rays
        assert run.target.tolist() == TRUTH
        assert run.image_shape == (4, 6)
        assert run.kind == "cluster"
        assert set(run.timings) == {"cone", "clusters"}
        assert {"cone", "clusters"} <= set(stages)
        assert run.parameters == {
            "n_components": 3,
            "method": "graph",
            "random_state": 0,
            "rays": True,
        }
        assert {feature.name for feature in run.top_features(2)[0]} <= set(GENES)

    @pytest.mark.slow
    def test_the_rank_is_chosen(self):
        run = cluster(read_table(X), "auto", method=CCNMF(n_init=2))
        assert run.n_clusters == run.model.n_components == 3
        assert run.facts()["rank_reason"].startswith("the largest mean adjusted Rand index")
        assert run.parameters["n_components"] == "auto"

    def test_auto_tries_two_to_ten_clusters_and_no_more_than_a_subsample_could_hold(self):
        assert [list(rank_candidates(n)) for n in (15, 5)] == [list(range(2, 11)), [2, 3, 4]]
        with pytest.raises(InvalidInputError, match="needs at least 3 samples, but there are 2"):
            cluster(read_table(X[:2]), "auto")

    def test_sparse_float32_and_other_affinities(self):
        for table, method in (
            (sp.csr_array(X), "graph"),
            (X.astype(np.float32), "features"),
            (X, "knn"),
        ):
            run = cluster(read_table(table), 3, method=method)
            assert run.facts()["cluster_sizes"].tolist() == [5, 5, 5]
            assert run.cone is None
            np.testing.assert_allclose(run.shares.sum(axis=1), 1)
            assert (run.shares.argmax(axis=1) == run.labels).all()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"n_components": 16}, "16 clusters were asked for, but there are only 15 samples"),
            ({"n_components": 0}, "at least 1"),
            ({"n_components": 2.5}, "integer"),
            (
                {"n_components": 3, "method": "nearest"},
                "method must be one of graph, features, knn, diffusion, or a CCNMF",
            ),
            ({"n_components": 3, "target": ["a", "b"]}, "2 labels for 15 samples"),
            (
                {"n_components": 3, "image_shape": (5, 5)},
                "images of 5 x 5 have 25 pixels, but the table has 24 features",
            ),
        ],
    )
    def test_impossible_arguments_are_refused_before_anything_is_computed(self, arguments, message):
        stages = []
        with pytest.raises(InvalidInputError, match=message):
            cluster(read_table(X), progress=lambda *stage: stages.append(stage), **arguments)
        assert stages == []

    def test_ctrl_c_keeps_the_clusters(self, tmp_path):
        def interrupt(stage, *_):
            if stage == "cone":
                raise KeyboardInterrupt

        with pytest.raises(Interrupted) as caught:
            cluster(read_table(X), 3, rays=True, progress=interrupt)
        save(caught.value.finished, tmp_path / "out")
        found = verify(tmp_path / "out", data=X)
        assert found.verdict is None
        assert "no cone is claimed" in str(found)
        assert not (tmp_path / "out" / "certificate.npz").exists()

    def test_a_cone_is_claimed_if_and_only_if_it_was_asked_for(self, saved, genes, tmp_path):
        (saved / "certificate.npz").rename(tmp_path / "certificate.npz")
        with pytest.raises(RunFolderError, match=r"has no certificate.npz; it is incomplete"):
            verify(saved)
        save(cluster(read_table(genes), 3), tmp_path / "plain")
        verify(tmp_path / "plain")
        (tmp_path / "certificate.npz").rename(tmp_path / "plain" / "certificate.npz")
        with pytest.raises(CertificateError, match="says that no cone was asked for"):
            verify(tmp_path / "plain")


class TestRays:
    def test_exact_and_few(self, genes, tmp_path):
        table = read_table(genes)
        exact = rays(table)
        few = rays(table, max_residual=0.2)
        some = rays(table, max_rays=4, weighting="mass")
        assert exact.cone.n_rays > few.cone.n_rays
        assert some.cone.n_rays == 4
        assert some.cone.ray_names.tolist() == [GENES[j] for j in some.cone.ray_indices]
        for number, run in enumerate((exact, few, some)):
            save(run, tmp_path / str(number))
            assert verify(tmp_path / str(number)).verdict.n_rays == run.cone.n_rays
            assert not (tmp_path / str(number) / "labels.csv").exists()
        assert few.facts()["largest_residual"] <= 0.2

    def test_with_a_number_of_rays_alone_they_are_added_until_the_rest_is_within_a_thousandth(self):
        P = np.eye(6)
        P[3:, :2] = np.sqrt(0.5)
        # how far each is from the cone of the others
        P[3, 3], P[4, 4], P[5, 5] = 0.0007, 0.0014, 0.003
        assert sorted(rays(read_table(P.T), max_rays=6).cone.ray_indices) == [0, 1, 2, 4, 5]

    def test_colinear_and_empty_features(self, tmp_path):
        P = np.array(
            [[1.0, 2.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 3.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0]]
        )
        save(rays(read_table(P)), tmp_path / "out")
        heading, *body = rows(tmp_path / "out" / "rays.csv")
        assert heading == [
            "ray",
            "feature",
            "name",
            "group_size",
            "colinear_features",
            "open",
            "mass",
        ]
        assert [row[:5] for row in body] == [["0", "0", "x0", "2", "1"], ["1", "3", "x3", "1", ""]]
        # the middle feature, of length sqrt(2), is the sum of both rays: sigma = 2, and 1 * 2 of it
        # goes to each
        np.testing.assert_allclose([float(row[-1]) for row in body], np.sqrt([1 + 4 + 2, 9 + 2]))


class TestSave:
    def test_the_files_and_names_round_trip(self, saved):
        assert {path.name for path in saved.iterdir()} == {
            "labels.csv",
            "names.csv",
            "markers.csv",
            "rays.csv",
            "factors.npz",
            "certificate.npz",
            "model.npz",
            "run.json",
        }
        heading, *labels = rows(saved / "labels.csv")
        shares = ["share_0", "share_1", "share_2"]
        assert heading == ["sample", "cluster", "name", "target", *shares]
        assert [original(row[0]) for row in labels] == SAMPLES
        assert [row[3] for row in labels] == TRUTH
        names = {int(row[1]): original(row[2]) for row in rows(saved / "rays.csv")[1:]}
        assert names == {j: GENES[j] for j in names}
        facts = json.loads((saved / "run.json").read_text(encoding="utf-8"))
        assert facts["data"]["path"] == "../data/genes.csv"
        assert facts["data"]["features_in"] == "rows"
        assert facts["parameters"]["random_state"] == 0
        assert facts["results"]["purity"] == 1
        assert {"numpy", "scipy", "scikit-learn", "numba", "conecollapse", "python"} <= set(
            facts["versions"]
        )
        with np.load(saved / "factors.npz", allow_pickle=False) as file:
            assert file["feature_names"].tolist() == GENES
            assert file["sample_names"].tolist() == SAMPLES
            assert file["A"].shape == (15, 3)
            assert file["components"].shape == (3, 24)
            assert file["data_hashes"].dtype == np.uint64
            np.testing.assert_allclose(file["components"], file["A"].T @ X)
        assert Cone.load(saved / "certificate.npz").verify(X.T)

    def test_an_earlier_run_is_replaced_and_nothing_else(self, saved, genes):
        run = rays(read_table(genes))
        with pytest.raises(RunFolderError, match=r"holds an earlier run; .* pass force=True"):
            save(run, saved)
        save(run, saved, force=True)
        assert not (saved / "labels.csv").exists()
        (saved / "notes.txt").write_text("mine")
        with pytest.raises(RunFolderError, match=r"holds other files \('notes.txt'\)"):
            save(run, saved, force=True)
        assert (saved / "notes.txt").read_text() == "mine"
        assert [path.name for path in saved.parent.iterdir() if path.name.startswith(".")] == []

    def test_folders_with_other_files_are_refused(self, genes, tmp_path):
        run = rays(read_table(genes))
        folder = tmp_path / "theirs"
        folder.mkdir()
        save(run, folder)  # empty
        (folder / "run.json").write_text('{"format": "another"}')
        with pytest.raises(RunFolderError, match="not empty and holds no earlier run"):
            save(run, folder)
        with pytest.raises(RunFolderError, match="is a file"):
            save(run, genes)
        with pytest.raises(RunFolderError, match="cannot write to"):
            save(run, "/proc/nowhere/out")

    @pytest.mark.parametrize("when", ["labels", "factors", "cone", "report"])
    def test_a_full_disk_leaves_nothing(self, when, genes, tmp_path, monkeypatch):
        def full(*_, **__):
            raise OSError(errno.ENOSPC, "No space left on device")

        run = cluster(read_table(genes), 3, rays=True)
        save(run, tmp_path / "out")
        before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
        if when != "report":
            place = {
                "labels": "conecollapse.runs.clustering.write_csv",
                "factors": "numpy.savez",
                "cone": "conecollapse.geometry.cone.Cone.save",
            }
            monkeypatch.setattr(place[when], full)
        for folder in ("new", "out"):
            with pytest.raises(
                RunFolderError, match="No space left on device; nothing was left there"
            ):
                save(run, tmp_path / folder, full if when == "report" else None, force=True)
        assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "out"]

    def test_ctrl_c_in_the_report_keeps_the_results(self, genes, tmp_path):
        def slow(path, _):
            path.write_text("<html>half")
            raise KeyboardInterrupt

        with pytest.raises(Interrupted, match="only the report is missing"):
            save(cluster(read_table(genes), 3), tmp_path / "out", slow)
        assert not (tmp_path / "out" / "report.html").exists()
        assert verify(tmp_path / "out")

    def test_the_report_is_written_with_the_rest(self, genes, tmp_path):
        save(rays(read_table(genes)), tmp_path / "out", lambda path, run: path.write_text(run.kind))
        assert (tmp_path / "out" / "report.html").read_text() == "rays"


class TestVerify:
    def test_what_was_saved_is_proven(self, saved):
        found = verify(saved)
        assert found.same_bytes
        assert found.notes == ()
        assert "24 rays generate all 24 features" in str(found)

    def test_one_byte_of_a_value(self, saved, genes):
        text = genes.read_text(encoding="utf-8")
        at = text.index("gene7,") + 8
        digit = "3" if text[at] != "3" else "4"
        genes.write_text(text[:at] + digit + text[at + 1 :], encoding="utf-8")
        with pytest.raises(
            CertificateError,
            match="the feature 'gene7' does not have the values that the run was made from",
        ):
            verify(saved)

    @pytest.mark.parametrize(
        "how", [{"normalize": "unit-samples"}, {"tfidf": True}, {"tfidf": True, "normalize": "max"}]
    )
    def test_prepared_tables_name_the_feature_that_changed(self, how, genes, tmp_path):
        save(cluster(prepare(read_table(genes), **how), 3), tmp_path / "out")
        assert verify(tmp_path / "out").notes == ()
        frame = pd.read_csv(genes, index_col=0, float_precision="round_trip")
        frame.iloc[9, 3] += 0.001
        frame.to_csv(genes)
        # although every prepared feature changed
        with pytest.raises(CertificateError, match="the feature 'gene9' does not"):
            verify(tmp_path / "out")

    def test_other_bytes_with_the_same_values(self, saved, genes):
        genes.write_text(genes.read_text(encoding="utf-8") + "\n", encoding="utf-8")
        found = verify(saved)
        assert not found.same_bytes
        assert "the bytes of the data file changed, but no value did" in str(found)

    def test_names_and_shapes_of_the_data(self, saved, genes):
        text = genes.read_text(encoding="utf-8")
        genes.write_text(text.replace("gene3,", "gene_3,"), encoding="utf-8")
        with pytest.raises(
            CertificateError, match="the feature 'gene3' of the run is called 'gene_3' in the data"
        ):
            verify(saved)
        genes.write_text("\n".join(text.split("\n")[:10]), encoding="utf-8")
        with pytest.raises(
            CertificateError, match="15 samples and 9 features, but the run was made from 15 and 24"
        ):
            verify(saved)

    def test_the_data_moves(self, saved, genes, tmp_path):
        shutil.copytree(
            tmp_path,
            tmp_path.with_name(f"{tmp_path.name}-copy"),
            ignore=shutil.ignore_patterns("*-copy"),
        )
        genes.unlink()
        copy = tmp_path.with_name(f"{tmp_path.name}-copy")
        assert verify(copy / "out")  # by the relative path
        assert verify(saved, data=copy / "data" / "genes.csv")
        with pytest.raises(
            RunFolderError, match=r"is not there any more; pass data=\.\.\. to say where it is now"
        ):
            verify(saved)

    def test_data_in_memory(self, tmp_path):
        save(cluster(read_table(X), 3), tmp_path / "out")
        with pytest.raises(RunFolderError, match="data in memory"):
            verify(tmp_path / "out")
        assert verify(tmp_path / "out", data=X)
        changed = X.copy()
        changed[3, 5] += 1e-12
        with pytest.raises(CertificateError, match="feature 'x5'"):
            verify(tmp_path / "out", data=changed)

    def test_a_certificate_that_does_not_hold_names_the_feature(self, saved):
        cone = Cone.load(saved / "certificate.npz")
        wrong = [
            (
                replace(family, G=-family.G)
                if hasattr(family, "G")
                else replace(family, offset=family.offset + 10)
            )
            for family in cone.certificate.witnesses
        ]
        Cone(cone.rays, replace(cone.certificate, witnesses=tuple(wrong))).save(
            saved / "certificate.npz"
        )
        with pytest.raises(CertificateError, match=r"ray \d+ \(feature '.*'\)"):
            verify(saved)

    def test_the_tolerance_is_reported_and_can_be_given(self, saved):
        """A folder in which everything agrees on a wide tolerance is true at that tolerance, and at
        no smaller one."""
        assert "(tol = 1e-08)" in str(verify(saved))
        with pytest.raises(
            CertificateError,
            match=r"ray \d+ \(feature '.*'\): its witness proves a distance of .* only",
        ):
            verify(saved, tol=0.9)
        cone = Cone.load(saved / "certificate.npz")
        Cone(cone.rays, replace(cone.certificate, tol=1e-7), ray_names=cone.ray_names).save(
            saved / "certificate.npz"
        )
        with pytest.raises(
            CertificateError, match=r"run.json: results.tol is 1e-08, but .* give 1e-07"
        ):
            verify(saved)
        facts = json.loads((saved / "run.json").read_text(encoding="utf-8"))
        facts["results"]["tol"] = 1e-7
        facts["checksum"] = checksum(facts)
        (saved / "run.json").write_text(json.dumps(facts), encoding="utf-8")
        assert "(tol = 1e-07)" in str(verify(saved))

    def test_a_certificate_about_another_number_of_features_is_refused(self, saved):
        Cone.from_points(np.vstack([np.eye(24), np.ones(24)])).save(saved / "certificate.npz")
        with pytest.raises(
            CertificateError, match=r"certificate.npz is about 25 features, but the run has 24"
        ):
            verify(saved)

    @pytest.mark.parametrize(
        "name", ["factors.npz", "certificate.npz", "run.json", "labels.csv", "rays.csv"]
    )
    def test_damaged_folders_are_one_sentence(self, name, saved):
        content = (saved / name).read_bytes()
        for damaged in (content[: len(content) // 2 + 1], b"", None):
            (saved / name).unlink(missing_ok=True)
            if damaged is not None:
                (saved / name).write_bytes(damaged)
            with pytest.raises(
                (RunFolderError, ConeFileError, CertificateError), match=r"^[^\n]+$"
            ):
                verify(saved)

    @pytest.mark.parametrize(
        "facts",
        [
            "[]",
            '{"format": "conecollapse-run-1"}',
            '{"format": "conecollapse-run-3"}',
            '{"format": "conecollapse-run-5"}',
            '{"format": 3, "data": 1}',
        ],
    )
    def test_facts_of_another_version(self, facts, saved):
        (saved / "run.json").write_text(facts)
        with pytest.raises(RunFolderError, match=r"another version|incomplete"):
            verify(saved)

    def test_no_folder(self, tmp_path):
        with pytest.raises(RunFolderError, match="there is no folder"):
            verify(tmp_path / "none")
        with pytest.raises(RunFolderError, match="holds no run"):
            verify(tmp_path)

    def test_factors_of_another_run(self, saved, genes, tmp_path):
        save(rays(read_table(genes)), tmp_path / "other")
        shutil.copy(tmp_path / "other" / "factors.npz", saved / "factors.npz")
        with pytest.raises(RunFolderError, match="has no 'A'"):
            verify(saved)


def test_hashes_see_every_place_of_a_sparse_column():
    dense = rng.random((5, 300)) * (rng.random((5, 300)) < 0.3)
    changed = dense.copy()
    changed[:, 280] = np.roll(changed[:, 280], 1)
    for make in (np.asarray, sp.csr_array):
        assert np.flatnonzero(
            feature_hashes(make(dense)) != feature_hashes(make(changed))
        ).tolist() == [280]


@pytest.mark.filterwarnings("error::conecollapse.EmptyDataWarning")
def test_warnings_of_the_estimator_reach_the_caller():
    empty = X.copy()
    empty[:, 3] = 0
    with pytest.raises(EmptyDataWarning, match="feature 3"):
        cluster(read_table(empty), 3)


class TestTampered:
    """Folders that were edited so that their files still agree with each other in part."""

    def edited(self, saved, **changes):
        facts = json.loads((saved / "run.json").read_text(encoding="utf-8"))
        for place, value in changes.items():
            if place in facts["results"]:
                facts["results"][place] = value
            else:
                facts[place] = value
        (saved / "run.json").write_text(json.dumps(facts), encoding="utf-8")

    def test_clusters_cannot_be_hidden_as_rays(self, saved):
        lines = (saved / "labels.csv").read_text(encoding="utf-8").replace(",0,", ",9,")
        (saved / "labels.csv").write_text(lines, encoding="utf-8")
        names = ("max_residual", "max_rays", "sample", "random_state")
        asked = dict.fromkeys(names) | {"weighting": "unit"}
        self.edited(saved, kind="rays", parameters=asked | {"effort": "exact"})
        with pytest.raises(CertificateError, match=r"factors\.npz has an entry 'A'"):
            verify(saved)

    def test_a_number_that_was_asked_for_has_no_other_reason(self, saved):
        assert "the choice of the number of clusters" not in verify(saved).not_checked
        self.edited(saved, rank_reason="3 clusters predict best")
        with pytest.raises(CertificateError, match="says why there are 3 clusters, but 3 were ask"):
            verify(saved)

    def test_another_preparation_gives_other_numbers(self, saved):
        self.edited(saved, preparation={"normalize": "max", "tfidf": False, "features": None})
        with pytest.raises(CertificateError, match=r"the shares of the sample 's0' in factors.npz"):
            verify(saved)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scale", "dtype"), [(1e200, np.float64), (1e-200, np.float64), (1e30, np.float32)]
)
def test_values_of_any_scale_end_in_finite_numbers_and_a_report(scale, dtype, tmp_path):
    from conecollapse.report import write_report

    table = read_table((X * scale).astype(dtype))
    save(cluster(table, 3, rays=True), tmp_path / "out", write_report)
    assert (tmp_path / "out" / "report.html").stat().st_size > 1e6
    masses = [float(row[-1]) for row in rows(tmp_path / "out" / "rays.csv")[1:]]
    assert np.isfinite(masses).all()
    assert min(masses) > 0


def test_a_failing_report_does_not_lose_the_results(genes, tmp_path):
    def broken(*_):
        raise ValueError("no page")

    with pytest.warns(UserWarning, match=r"the report could not be made \(ValueError: no page\)"):
        save(cluster(read_table(genes), 3), tmp_path / "out", broken)
    assert not (tmp_path / "out" / "report.html").exists()
    verify(tmp_path / "out")


def test_a_sample_of_zeros_is_in_no_cluster_and_the_run_verifies(tmp_path):
    X = np.kron(np.eye(3), np.ones((8, 4))) + 0.1 * np.random.default_rng(0).random((24, 12))
    X[5] = 0.0
    np.savetxt(tmp_path / "x.csv", X, delimiter=",")
    with pytest.warns(UserWarning, match="sample 5 of X holds only zeros"):
        run = cluster(read_table(tmp_path / "x.csv"), 3)
    save(run, tmp_path / "run")
    assert (tmp_path / "run" / "labels.csv").read_text().splitlines()[6] == "5,-1,,0.0,0.0,0.0"
    assert (
        sum(json.loads((tmp_path / "run" / "run.json").read_text())["results"]["cluster_sizes"])
        == 23
    )
    verify(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("A", lambda a: a[0, 0]),
        ("components", lambda a: a.astype(str)),
        ("components", lambda a: a.astype(complex)),
        ("ray_indices", lambda a: a.astype(float)),
        ("data_hashes", lambda a: a.astype([("x", a.dtype)])),
    ],
)
def test_factors_of_another_kind_are_refused_in_one_sentence(genes, tmp_path, name, change):
    save(cluster(read_table(genes), 3, rays=True), tmp_path / "out")
    arrays = dict(np.load(tmp_path / "out" / "factors.npz"))
    np.savez(tmp_path / "out" / "factors.npz", **(arrays | {name: change(arrays[name])}))
    kinds = rf"factors.npz(: {name} is an array of .* and shape| in .* has no '{name}' of shape)"
    with pytest.raises((RunFolderError, CertificateError), match=kinds):
        verify(tmp_path / "out")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        (
            '{"format": "conecollapse-run-5", "kind": "rays", "preparation": ["normalize",'
            ' "tfidf"], "data": {}}'
        ),
    ],
)
def test_facts_of_another_kind_are_refused_in_one_sentence(genes, tmp_path, text):
    save(rays(read_table(genes)), tmp_path / "out")
    (tmp_path / "out" / "run.json").write_text(text)
    with pytest.raises(RunFolderError, match=r"run\.json in .* (cannot be read|is incomplete)"):
        verify(tmp_path / "out")


def test_forged_names_of_rays_are_refused(genes, tmp_path):
    save(rays(read_table(genes)), tmp_path / "out")
    file = tmp_path / "out" / "certificate.npz"
    arrays = dict(np.load(file))
    np.savez(
        file, **(arrays | {"ray_names": np.array([f"lie {k}" for k in range(len(arrays["rays"]))])})
    )
    with pytest.raises(
        CertificateError,
        match=r"certificate\.npz does not give the rays the names that factors\.npz gives",
    ):
        verify(tmp_path / "out")


@pytest.mark.parametrize("missing", [os.W_OK, os.X_OK])
def test_a_folder_that_may_not_be_written_or_entered_is_refused_before_any_work(
    missing, tmp_path, monkeypatch
):
    assert check_folder(tmp_path / "out") == tmp_path / "out"
    monkeypatch.setattr(os, "access", lambda _path, mode: not mode & missing)
    with pytest.raises(RunFolderError, match=f"no permission in '{tmp_path}'"):
        check_folder(tmp_path / "out")


def test_a_folder_in_which_no_file_can_be_made_is_refused_before_any_work(tmp_path, monkeypatch):
    def full(**_kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    check_folder(tmp_path / "out")
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(
        RunFolderError, match=f"cannot write to .*: {os.strerror(errno.ENOSPC)}; name another"
    ):
        check_folder(tmp_path / "out")
