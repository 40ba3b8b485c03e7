"""Non-negative matrix factorization: alternating methods, and what they share for weights, missing
entries, fixed components and encodings."""
