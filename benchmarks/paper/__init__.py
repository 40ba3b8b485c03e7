"""The paper's laboratory: the methods of its Table 2, ours and other methods (k-means, spectral),
run, recorded and compared; the ablation of our recipe; and the choice of its constants with one
dataset left out.

``make reproduce``, or ``python -m benchmarks.paper --help`` in the root of the repository.
"""
