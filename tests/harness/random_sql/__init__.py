"""Random SQL, the same on InnoDB and ATOLL."""
