"""Random ALTERs of every pair of column types, with all that may depend on a column."""
