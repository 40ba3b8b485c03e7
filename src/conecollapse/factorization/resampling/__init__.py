"""What many factorizations say: of random starts, of drawn tables, without some entries."""
