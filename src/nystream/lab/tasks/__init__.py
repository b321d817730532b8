"""The tasks of the paper: their data, features, scores and baselines."""
