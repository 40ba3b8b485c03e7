"""One function for each layout of files: paths in, a `Parsed` out.

A parser raises ValueError, or what NumPy, SciPy and the archive modules raise, when a file is
damaged or of another kind; `conecollapse.datasets.loading` turns that into one sentence with the
file's name.
"""
