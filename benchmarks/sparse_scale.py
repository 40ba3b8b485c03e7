"""Cone and CC-NMF of a large synthetic corpus: words drawn from topics with Zipf-distributed
frequencies, seeded.

python benchmarks/sparse_scale.py [--words 200000] [--documents 100000] [--entries 10000000] [--rank
20] [--verify]
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
import warnings

import numpy as np
import scipy.sparse as sp
from common import machine, peak_gib

TOPICS = 20
TOPICAL = 0.5  # share of the occurrences that come from the document's own topic


def zipf_corpus(
    n_words: int, n_documents: int, n_entries: int, seed: int = 0
) -> tuple[sp.csr_array, np.ndarray]:
    """Counts (n_documents, n_words) with at least ``n_entries`` non-zeros, and the topic of each
    document.

    Word k has frequency 1 / (k + 1). A topic is the same law over a permutation of the words of its
    own, so that documents of a topic share frequent words. Occurrences are drawn in rounds until
    enough different (document, word) pairs have come up.
    """
    rng = np.random.default_rng(seed)
    cumulated = np.cumsum(1.0 / np.arange(1, n_words + 1))
    cumulated /= cumulated[-1]
    topic = rng.integers(TOPICS, size=n_documents)
    shuffled = np.array([rng.permutation(n_words) for _ in range(TOPICS)], dtype=np.int32)
    X = sp.csr_array((n_documents, n_words), dtype=np.float64)
    while n_entries > X.nnz:
        n_draws = max(int(1.2 * (n_entries - X.nnz)), 1000)
        document = rng.integers(n_documents, size=n_draws).astype(np.int32)
        word = np.searchsorted(cumulated, rng.random(n_draws)).astype(np.int32)
        own = rng.random(n_draws) < TOPICAL
        word[own] = shuffled[topic[document[own]], word[own]]
        X = X + sp.csr_array((np.ones(n_draws), (document, word)), shape=X.shape)
    return X, topic


def current_gib() -> float:
    """Resident memory of this process now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=int, default=200_000)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--entries", type=int, default=10_000_000)
    parser.add_argument("--rank", type=int, default=TOPICS)
    parser.add_argument("--n-init", type=int, default=1)
    parser.add_argument("--verify", action="store_true", help="check the certificate as well")
    options = parser.parse_args()
    from conecollapse import CCNMF, Cone
    from conecollapse.metrics import purity_score

    warnings.simplefilter("ignore")
    # compile
    Cone.from_points(
        sp.random_array((300, 200), density=0.02, rng=np.random.default_rng(0)).tocsr()
    )
    X, topic = zipf_corpus(options.words, options.documents, options.entries)
    P = sp.csr_array(X.T)
    print(machine())
    once = int((np.diff(P.indptr) == 1).sum())
    print(
        f"{options.words} words x {options.documents} documents, {X.nnz} non-zeros; {once} words"
        " occur in one document"
    )
    start, before = time.perf_counter(), current_gib()
    print(
        f"peak {peak_gib():.2f} GiB after drawing, {before:.2f} GiB held by data and libraries",
        flush=True,
    )
    cone = Cone.from_points(P)
    print(
        f"cone: {time.perf_counter() - start:.1f} s, {cone.n_rays} rays, peak {peak_gib():.2f} GiB",
        flush=True,
    )
    if options.verify:
        start = time.perf_counter()
        verdict = cone.verify(P)
        print(f"verify: {time.perf_counter() - start:.1f} s, peak {peak_gib():.2f} GiB", flush=True)
        print(verdict.sentence("words"), flush=True)
    start = time.perf_counter()
    model = CCNMF(options.rank, n_init=options.n_init, random_state=0).fit(X)
    print(
        f"CC-NMF with its cone: {time.perf_counter() - start:.1f} s, {model.n_iter_} iterations, "
        f"purity {purity_score(topic, model.labels_):.3f}, peak {peak_gib():.2f} GiB"
    )


if __name__ == "__main__":
    sys.exit(main())
