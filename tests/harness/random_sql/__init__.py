"""Random SQL that must have the same results with InnoDB and ATOLL."""
