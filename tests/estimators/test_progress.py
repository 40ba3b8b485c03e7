"""Long work is never silent: what is shown when, callbacks, threads; and warnings that are said
once."""

from __future__ import annotations

import sys
import types
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import cross_val_score

from conecollapse import (
    CCNMF,
    ConeCollapse,
    ConeNovelty,
    EmptyDataWarning,
    HierarchicalNMF,
    InvalidInputError,
    MinVolumeNMF,
    SeparableNMF,
    select_rank,
)
from conecollapse import _progress as progress_module
from conecollapse._progress import showing, teller
from conecollapse._threads import current_threads

X = np.kron(np.eye(3), np.ones((8, 4))) + 0.1 * np.random.default_rng(0).random((24, 12))


class Recorder:
    """A screen that remembers."""

    def __init__(self):
        self.told, self.shown, self.closed = [], False, False

    def update(self, text, done, total):
        self.told.append((text, done, total))

    def show(self):
        self.shown = True

    def close(self):
        self.closed = True


@pytest.fixture
def screens(monkeypatch):
    """The screens that are opened, all of which somebody looks at."""
    opened = []

    def screen():
        opened.append(Recorder())
        return opened[-1]

    monkeypatch.setattr(progress_module, "_screen", screen)
    return opened


def test_work_that_is_over_soon_shows_nothing(screens):
    with showing("work"):
        teller()("stage", 1, 2)
    assert not screens[0].shown
    assert screens[0].closed


def test_work_that_lasts_is_shown():
    screen = Recorder()
    progress_module._shown_later(screen, 0.0).join(20)
    assert screen.shown


def test_of_nested_work_the_outermost_that_counts_is_shown(screens):
    with showing("outer"):
        with showing("inner"):
            teller()("iterations", 1, 9)  # the outer one counts nothing yet
        teller()("fits", 0, 4)
        with showing("inner"):
            teller()("iterations", 2, 9)
        teller()("fits", 1, 4)
    assert len(screens) == 1
    assert screens[0].told == [
        ("outer: iterations", 1, 9),
        ("outer: fits", 0, 4),
        ("outer: fits", 1, 4),
    ]
    assert teller() is None


def test_nothing_is_shown_where_nobody_looks():
    with showing("work") as display:
        assert display.screen is None
    with showing("work", verbose=False) as display:
        assert display.screen is None


def test_a_notebook_shows_one_line_that_changes(monkeypatch):
    lines = []
    handle = types.SimpleNamespace(update=lambda data, raw: lines.append(data["text/plain"]))  # noqa: ARG005

    def display(data, raw, display_id):  # noqa: ARG001
        lines.append(data["text/plain"])
        return handle

    kernel = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: kernel))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    assert isinstance(progress_module._screen(), progress_module._Notebook)
    screen = progress_module._Notebook(refresh=0.0)
    screen.update("CCNMF: iterations", 1, 4)
    assert lines == []
    screen.show()
    screen.began -= 10
    screen.update("CCNMF: iterations", 2, 4)
    screen.close()
    assert lines[0] == "CCNMF: iterations, 1 of 4 (0:00, at most 0:00 more)"
    assert lines[1] == "CCNMF: iterations, 2 of 4 (0:00, at most 0:10 more)"
    assert lines[-1] == ""


@pytest.mark.parametrize(
    "model",
    [HierarchicalNMF(3, random_state=0), CCNMF(3, random_state=0), MinVolumeNMF(3)],
    ids=repr,
)
class TestIterations:
    def test_the_callback_hears_every_iteration_and_can_end_the_run(self, model):
        heard = []
        fitted = clone(model).set_params(callback=lambda *told: heard.append(told)).fit(X)
        assert [n for n, _ in heard][: fitted.n_iter_] == list(range(1, fitted.n_iter_ + 1))
        assert all(np.isfinite(objective) for _, objective in heard)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stopped = clone(model).set_params(callback=lambda n, _: n == 1, tol=1e-12).fit(X)
        assert "stopped by the callback" in stopped.status_

    def test_verbose_prints_and_false_is_silent(self, model, capsys, screens):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clone(model).set_params(verbose=True, tol=1e-12, max_iter=30).fit(X)
            said = capsys.readouterr().out
            clone(model).set_params(verbose=False).fit(X)
        assert capsys.readouterr().out == ""
        assert said == "" or said.startswith(f"{type(model).__name__}: iteration 10, objective ")
        assert not screens

    def test_a_fit_tells_how_far_it_is(self, model, screens):
        clone(model).fit(X)
        assert any(
            text.startswith(type(model).__name__) and total > 1
            for text, _, total in screens[0].told
        )
        assert screens[0].closed


@pytest.mark.parametrize("model", [ConeCollapse(), ConeNovelty(), SeparableNMF(3)], ids=repr)
def test_estimators_without_iterations_tell_their_stages(model):
    stages = []
    clone(model).set_params(callback=lambda *told: stages.append(told)).fit(X)
    assert stages
    assert all(isinstance(stage, str) and 0 <= done <= total for stage, done, total in stages)


def test_n_jobs_is_the_number_of_threads_in_use():
    seen = []
    HierarchicalNMF(
        2, random_state=0, n_jobs=1, callback=lambda *_: seen.append(current_threads())
    ).fit(X)
    assert set(seen) == {1}
    with pytest.raises(InvalidInputError, match="n_jobs must be a number of threads"):
        HierarchicalNMF(2, n_jobs=0).fit(X)
    with pytest.raises(InvalidInputError, match="callback must be a function"):
        HierarchicalNMF(2, callback=3).fit(X)


def test_a_choice_of_a_rank_counts_its_fits(screens):
    heard = []
    select_rank(X, [2, 3], n_runs=2, random_state=0, callback=lambda *told: heard.append(told))
    assert heard == [(done, 8) for done in range(1, 9)]
    assert len(screens) == 1
    assert screens[0].told[-1] == ("select_rank: stability, fits", 8, 8)


@pytest.mark.parametrize(
    "estimator",
    [KMeans(n_init=2), AgglomerativeClustering(), GaussianMixture(reg_covar=0.1)],
    ids=repr,
)
@pytest.mark.parametrize("method", ["stability", "consensus"])
def test_any_clusterer_may_be_asked_for_its_rank(estimator, method):
    chosen = select_rank(X, [2, 3, 5], method, estimator=estimator, n_runs=2, random_state=0)
    assert chosen.rank == 3 or method == "consensus"


def test_what_is_no_clusterer_is_refused():
    with pytest.raises(
        InvalidInputError,
        match="ConeNovelty is no clusterer with a parameter n_components or n_clusters",
    ):
        select_rank(X, [2, 3], estimator=ConeNovelty())


def test_a_generator_is_a_random_state():
    a, b = (
        HierarchicalNMF(3, init="random", random_state=np.random.default_rng(7)).fit(X).components_
        for _ in range(2)
    )
    np.testing.assert_array_equal(a, b)
    rng = np.random.default_rng(7)
    first, second = (
        HierarchicalNMF(3, init="random", tol=0.5, random_state=rng).fit(X).components_
        for _ in range(2)
    )
    assert (first != second).any()  # it goes on from where it was
    assert select_rank(X, [2, 3], n_runs=2, random_state=np.random.default_rng(0)).rank == 3


def test_empty_features_are_told_once_for_all_folds():
    Y = np.hstack([X, np.zeros((24, 2))])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        cross_val_score(HierarchicalNMF(2, random_state=0), Y, cv=4)
    assert [w.category for w in said].count(EmptyDataWarning) == 1
    model = HierarchicalNMF(2, random_state=0)
    for _ in range(2):  # the user's own fits are told each time
        with pytest.warns(EmptyDataWarning, match="features 12, 13 of X hold only zeros"):
            model.fit(Y)


def test_a_warning_points_to_the_line_of_the_caller():
    with pytest.warns(EmptyDataWarning) as said:
        HierarchicalNMF(2, random_state=0).fit(np.hstack([X, np.zeros((24, 1))]))
    assert said[0].filename == __file__
