"""From a run to its scores: requests, samples, scoring, comparing."""
