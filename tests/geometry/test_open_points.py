"""Open points: rays that are kept without proof. The cone is the same, and `prove` decides them."""

from __future__ import annotations

import dataclasses
import json
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from certificate_cases import cases, dense_points, quick, sparse_points, with_twins
from conftest import seeds

from conecollapse import CCNMF, CertificateError, Cone, ConeCollapse, SlowWarning
from conecollapse._linalg import unit_rows
from conecollapse.certificates import Metric
from conecollapse.geometry import certified
from conecollapse.geometry.certified.cost import (
    CALL_SPARSE,
    MULTIPLY,
    MULTIPLY_SPARSE,
    PRODUCTS,
    WRITE,
    WRITE_SPARSE,
    Budget,
    product_time,
    warn_if_long,
    warn_of_rest,
)
from conecollapse.geometry.certified.lists import Lists
from conecollapse.geometry.certified.private import private_coordinates
from conecollapse.io import open_table

MAKERS = {"dense": dense_points, "sparse": sparse_points, "twins": with_twins}


@pytest.fixture(params=list(MAKERS))
def case(request):
    P = MAKERS[request.param]()
    cone = quick(P)
    assert len(cone.open_points)
    return P, cone


def forge(cone, **changes):
    return Cone(cone._rays, dataclasses.replace(cone.certificate, **changes))


@pytest.mark.parametrize("seed", seeds(20))
@pytest.mark.parametrize("kind", list(MAKERS))
def test_proving_a_quick_cone_gives_the_exact_one(kind, seed):
    P = MAKERS[kind](seed)
    cone = quick(P).prove(P)
    assert len(cone.open_points) == 0
    assert cone.ray_indices.tolist() == Cone.from_points(P).ray_indices.tolist()
    assert cone.verify(P).n_open == 0


def test_a_cone_with_open_points_is_the_cone_of_its_points(case, tmp_path):
    """Also when it comes back from a file. What it proves stays proven, and the verdict counts the
    rest."""
    P, made = case
    exact = Cone.from_points(P)
    made.save(tmp_path / "cone.npz")
    for cone in (made, Cone.load(tmp_path / "cone.npz")):
        verdict = cone.verify(P)
        assert set(cone.open_points) <= set(cone.ray_indices)
        assert (verdict.n_open, verdict.n_rays) == (len(cone.open_points), cone.n_rays)
        assert f"{verdict.n_open} of the rays are open: not proven to be needed." in str(verdict)
        assert f"{cone.n_rays} rays ({verdict.n_open} open) of" in repr(cone)
        Y = np.random.default_rng(0).random((20, P.shape[1]))
        assert np.abs(cone.residuals(Y) - exact.residuals(Y)).max() <= 2e-8
        assert cone.contains(P).all()
        assert np.abs(cone.coefficients(Y) @ cone.rays - exact.project(Y)).max() <= 1e-7
        assert abs(cone.point_coefficients @ cone.rays - unit_rows(P)[0]).max() <= 2e-8
        proven = cone.prove(P)
        assert proven.ray_indices.tolist() == exact.ray_indices.tolist()
        before, after = cone.certificate, proven.certificate
        assert set(before.rays[~before.open]) <= set(after.rays[~after.rays_only])
    assert "open" not in str(exact.verify(P))


def test_all_open_is_honest_and_says_so(case):
    P, cone = case
    c = cone.certificate
    nothing = forge(
        cone,
        open=np.ones(cone.n_rays, bool),
        witnesses=(),
        rays_only=np.zeros(cone.n_rays, bool),
        separated=c.rays,
    )
    verdict = nothing.verify(P)
    assert (verdict.n_open, verdict.smallest_distance) == (cone.n_rays, None)
    assert nothing.prove(P).verify(P).n_open == 0


def test_open_points_that_generate_too_little_are_refused(case):
    """To call points open excuses no gap in the cover."""
    P, cone = case
    c, k = cone.certificate, int(np.flatnonzero(cone.certificate.open)[0])
    kept = np.arange(cone.n_rays) != k
    families = []
    for family in c.witnesses:
        some = family.take(np.flatnonzero(family.of != k))
        families.append(dataclasses.replace(some, of=some.of - (some.of > k)))
    H = sp.csr_array(c.coefficients.tocsc()[:, kept])
    fewer = {name: getattr(c, name)[kept] for name in ("rays", "open", "rays_only", "separated")}
    forged = Cone(
        cone.rays[kept], dataclasses.replace(c, coefficients=H, witnesses=tuple(families), **fewer)
    )
    with pytest.raises(
        CertificateError, match=rf"point {c.rays[k]}: it is neither a ray nor represented by rays"
    ):
        forged.verify(P)
    with pytest.raises(
        CertificateError, match=rf"point {c.rays[k]}: it is neither a ray nor represented by rays"
    ):
        forged.prove(P)


def test_claims_about_open_points_contradict_themselves():
    cone, P = cases()["quick"]
    c = cone.certificate
    with pytest.raises(CertificateError, match=r"ray \d+ has 1 of them, but it is open"):
        forge(cone, open=np.ones(cone.n_rays, bool)).verify(P)
    with pytest.raises(
        CertificateError,
        match=r"ray \d+ has 0 of them; each ray needs exactly one, unless it is open",
    ):
        forge(cone, open=np.zeros(cone.n_rays, bool)).verify(P)
    with pytest.raises(
        CertificateError,
        match=(
            r"'open' is not well formed: ray \d+ is open, so that it has no witness, but"
            r" 'rays_only'"
        ),
    ):
        forge(cone, rays_only=c.open.copy()).verify(P)
    with pytest.raises(
        CertificateError, match="'open' is not well formed: it must be a plain array"
    ):
        forge(cone, open=c.open.astype(int)).verify(P)
    # they would count as rays that another point needs
    separated = np.where(c.open, c.rays[~c.open][0], c.separated)
    with pytest.raises(
        CertificateError, match=rf"its witness is about another point, {separated[c.open][0]}"
    ):
        forge(cone, separated=separated).verify(P)


def test_only_its_own_points_prove_a_cone(case):
    P, cone = case
    with pytest.raises(CertificateError, match="but P has shape"):
        cone.prove(P[:-1])
    with pytest.raises(CertificateError, match=r"the table has shape .*; pass the table that the"):
        cone.prove(open_table(P[:, 1:].T))
    with pytest.raises(CertificateError, match=r"the stored ray is .* away from the unit point"):
        cone.prove(np.random.default_rng(0).random(P.shape))
    with pytest.raises(ValueError, match=r'`effort` must be "exact" or "quick"; got \'fast\''):
        Cone.from_points(P, effort="fast")
    with pytest.raises(ValueError, match="prove needs an exact cone"):
        Cone.approximate(P, 0.1).prove(P)


def test_names_stay_with_the_rays_that_are_proven():
    pandas = pytest.importorskip("pandas")
    P = dense_points()
    frame = pandas.DataFrame(P, index=[f"p{i}" for i in range(len(P))])
    cone = quick(P)
    cone.ray_names = np.asarray(frame.index)[cone.ray_indices]
    for points in (frame, P):
        proven = cone.prove(points)
        assert proven.ray_names.tolist() == [f"p{i}" for i in proven.ray_indices]


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_quick_cones_merge_and_stay_open_or_are_decided(kind):
    P = MAKERS[kind]()
    half = P.shape[0] // 2
    parts = [Cone.from_points(some, effort="quick") for some in (P[:half], P[half:])]
    quick_one = parts[0].merge(parts[1], effort="quick")
    assert quick_one.verify(P).n_open == len(quick_one.open_points) > 0
    exact = Cone.from_points(P).ray_indices.tolist()
    assert parts[0].merge(parts[1]).ray_indices.tolist() == exact
    streamed = Cone.from_blocks([P[:half], P[half:]], effort="quick")
    assert streamed.ray_indices.tolist() == quick_one.ray_indices.tolist()
    assert streamed.prove(P).ray_indices.tolist() == exact


def test_quick_cones_of_tables_in_blocks(tmp_path):
    X = dense_points().T
    tall = np.vstack([X] * 20)
    np.save(tmp_path / "tall.npy", tall)
    table = open_table(tmp_path / "tall.npy", block_size=50)
    exact = Cone.from_points(tall.T).ray_indices.tolist()
    for cone in (
        Cone.from_table(table, effort="quick"),
        Cone.from_samples(np.split(tall, 4), effort="quick"),
    ):
        assert (
            cone.verify(table).n_open
            == cone.verify(lambda: np.split(tall, 8)).n_open
            == len(cone.open_points)
            > 0
        )
        assert (
            cone.prove(table).ray_indices.tolist()
            == cone.prove(tall.T).ray_indices.tolist()
            == exact
        )
    with pytest.raises(CertificateError, match=r"but the table has shape \(80, 70\)"):
        cone.prove(open_table(tall[:80]))


def test_where_rounding_spoils_a_witness_a_quick_cone_leaves_the_ray_open():
    """Exactly, the tolerance would have to grow."""
    rng = np.random.default_rng(0)
    X = 1 + 1e-7 * rng.random((200, 5))
    with pytest.warns(UserWarning, match="rounding hides distances"):
        assert Cone.from_samples([X], tol=1e-9).tol > 1e-9
    cone = Cone.from_samples([X], tol=1e-9, effort="quick")
    assert cone.tol == 1e-9
    assert cone.verify(lambda: [X]).n_open == len(cone.open_points) > 0


@pytest.fixture
def table(tmp_path):
    """A file whose features leave rays open when they are looked at quickly."""
    file = tmp_path / "table.csv"
    np.savetxt(
        file,
        dense_points().T,
        delimiter=",",
        header=",".join(f"f{i}" for i in range(70)),
        comments="",
    )
    return file


def test_the_command_says_what_is_proven_and_how_many_are_open(run, table, tmp_path):
    out = tmp_path / "out"
    asked = ["rays", table, "--features-in", "columns", "-o", out, "--force"]
    said = run(*asked, "--quick")[1]
    assert (
        "0 of 70 features are extreme rays; proven, see certificate.npz. 70 more are open: kept as"
        " rays without proof" in said
    )
    assert "70 of the rays are open: not proven to be needed." in run("verify", out)[1]
    assert json.loads(run("verify", out, "--json")[1])["verdict"]["n_open"] == 70
    states = [row.split(",")[-2] for row in (out / "rays.csv").read_text().splitlines()]
    assert (states[0], states.count("1")) == ("open", 70)
    facts = json.loads((out / "run.json").read_text())
    hidden = facts | {"results": facts["results"] | {"n_open": 0}}
    (out / "run.json").write_text(json.dumps(hidden))
    assert "results.n_open is 0, but" in run("verify", out)[2]
    proven = "39 of 70 features are extreme rays; proven, see certificate.npz.\n"
    assert proven in run(*asked)[1]
    assert "open" not in run("verify", out)[1]
    cluster = ["cluster", table, "-k", 2, "--no-report", "--features-in", "columns", "--rays"]
    assert proven in run(*cluster, "-o", tmp_path / "clusters")[1]


def test_estimators_are_quick_and_say_so():
    X = dense_points().T
    assert CCNMF(2, random_state=0).fit(X).cone_.n_rays == 39, "few features are decided"
    X = np.vstack([X] * 8)  # the same angles
    model = CCNMF(2, random_state=0).fit(X)
    assert len(model.cone_.open_points) == 70
    assert "(70 open)" in model._repr_html_()
    assert "70 rays are kept without proof, cone_.prove decides" in model._repr_html_()
    assert model.cone_.prove(X.T).n_rays == 39
    assert CCNMF(2, random_state=0, cone=model.cone_.prove(X.T)).fit(X).cone_.n_rays == 39
    exact = ConeCollapse().fit(X)
    assert "every ray is proven to be needed" in exact._repr_html_()
    some = ConeCollapse(effort="quick").fit(X[:, :35]).partial_fit(X[:, 35:])
    assert exact.cone_.n_rays == 39 < some.cone_.n_rays
    with pytest.raises(ValueError, match="`effort` must be"):
        ConeCollapse(effort="slow").fit(X)


def test_long_work_is_announced_with_a_way_to_ask_for_less():
    many = np.broadcast_to(1.0, (10**6, 50))
    with pytest.warns(
        SlowWarning,
        match=(
            r"deciding the 1000000 of 1000000 points .* about .*; a quick cone leaves them open,"
            r" and max_rays="
        ),
    ):
        warn_of_rest(np.ones(len(many), bool), many)


@pytest.mark.parametrize(
    ("seconds", "said"), [(11, "11 seconds"), (200, "3 minutes"), (3e4, "8 hours")]
)
def test_times_are_said_in_units_that_people_use(seconds, said):
    with pytest.warns(SlowWarning, match=f"the work may take about {said}; do less."):
        warn_if_long(seconds, "the work", "do less")


def test_a_product_of_sparse_points_is_counted():
    """The multiplications of ``U U'`` are the squares of the counts of the columns."""
    U = sp.csr_array(sp.vstack([sp.eye_array(50), sp.eye_array(50)]))
    written = 100**2 * -np.expm1(-(50 * 2**2) / 100**2)
    assert product_time(U) == pytest.approx(
        CALL_SPARSE + MULTIPLY_SPARSE * 50 * 2**2 + WRITE_SPARSE * written
    )
    assert product_time(U.toarray()) == pytest.approx(100 * 100 * (50 * MULTIPLY + WRITE))


class Counted(Budget):
    """A budget that is remembered."""

    every: ClassVar[list[Budget]] = []

    @classmethod
    def quick(cls, V, n_points):
        cls.every.append(super().quick(V, n_points))
        return cls.every[-1]


@pytest.mark.parametrize(
    "shape", [(30, 3), (700, 20), (2500, 20), (3000, 100), (300, 900), (40, 4000)]
)
@pytest.mark.parametrize("kind", ["dense", "sparse", "smooth"])
def test_a_quick_cone_spends_at_most_two_products(monkeypatch, kind, shape):
    """As counted, with what is done in any case; and proven to the same tolerance. Few points are
    all left open."""
    monkeypatch.setattr(certified, "Budget", Counted)
    monkeypatch.setattr(Counted, "every", [])
    rng = np.random.default_rng(0)
    P = rng.random(shape)
    if kind == "sparse":
        P = sp.csr_array(P * (rng.random(shape) < 0.2))
    if kind == "smooth":
        P = 3.0 + P / np.linalg.norm(P - 0.5, axis=1)[:, None]
    cone = Cone.from_points(P, effort="quick")
    cone.verify(P)
    (budget,) = Counted.every
    assert budget.left + budget.spent <= PRODUCTS * product_time(P)
    assert budget.left >= 0 or budget.spent == 0 or kind == "sparse"
    assert budget.spent > 0 or len(cone.open_points) == cone.n_rays
    assert budget.spent > 0 or shape[0] < 1200


def test_sparse_points_that_are_not_reached_within_the_budget_stay_open():
    rng = np.random.default_rng(0)
    U = unit_rows(sp.csr_array(rng.random((300, 100)) * (rng.random((300, 100)) < 0.3)))[0]
    lists = Lists.of(U)
    every = private_coordinates(lists, 1e-8, Budget()).of
    some = private_coordinates(lists, 1e-8, Budget(product_time(U) / 20)).of
    assert 0 < len(some) < len(every)
    assert set(some) < set(every)


def test_going_on_from_a_quick_cone_takes_the_product_that_it_left_out():
    """A quick cone of points in so many dimensions leaves them open. A search for each would take
    long; the product proves them all at once."""
    P = np.random.default_rng(0).random((1500, 200))
    quick_one = Cone.from_points(P, effort="quick")
    assert len(quick_one.open_points) > 1000
    proven = quick_one.prove(P)  # without a SlowWarning, which the tests turn into an error
    assert len(proven.open_points) == 0
    assert any(
        isinstance(family, Metric) and len(family.of) > 1000
        for family in proven.certificate.witnesses
    )


@pytest.mark.parametrize("seed", [28, 0, 4, 24])
def test_mostly_zeros_with_wild_scales_have_the_same_cone_dense_and_sparse(seed):
    """Where rounding hides rays in dense coordinates, supports tell; in whatever order the points
    come."""
    rng = np.random.default_rng(seed)
    P = rng.random((300, 60)) * (rng.random((300, 60)) < 0.05) * 10.0 ** rng.integers(-8, 8, 60)
    cone = Cone.from_points(sp.csr_array(P))
    for Q in (P, np.asfortranarray(P)):
        other = Cone.from_points(Q)
        assert other.tol == cone.tol == 1e-8
        np.testing.assert_array_equal(other.ray_indices, cone.ray_indices)
        other.verify(Q)
    Cone.from_points(P[::-1]).verify(P[::-1], tol=1e-8)
