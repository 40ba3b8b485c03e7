"""CC-NMF: orthogonal factorizations of the extreme rays of a cone, of a table or of a graph."""
