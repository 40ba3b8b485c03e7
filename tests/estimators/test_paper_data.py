"""The paper's datasets, where they are at hand. Small real and synthetic data cover the same code
everywhere else."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import load_points

from conecollapse import CCNMF, Cone

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "n_rays"),
    [
        ("AMLALL", 3593),
        ("KHAN", 2308),
        ("DUKE", 6834),
        ("ORL", 10304),
        ("UMIST", 1024),
        ("MED", 5771),
        ("CITESEER", 3623),
        ("REUTERS", 17942),
    ],
)
def test_number_of_rays_and_certificate(name, n_rays):
    P = load_points(name)
    cone = Cone.from_points(P)
    assert cone.n_rays == n_rays
    cone.verify(P)


def test_a_mass_weighted_epsilon_cone_of_text():
    P = load_points("MED")
    cone = Cone.approximate(P, max_residual=0.3, max_rays=60, weighting="mass")
    assert cone.n_rays <= 60
    cone.verify(P)


def test_the_paper_to_the_letter_on_leukaemia_genes():
    X = load_points("AMLALL").T
    agreement = []
    for seed in range(5):
        model = CCNMF.paper(3, random_state=seed).fit(X)
        assert model.cone_.n_rays == 3593
        agreement.append(np.mean(model.predict(X) == model.labels_))
    assert min(agreement) >= 0.9
