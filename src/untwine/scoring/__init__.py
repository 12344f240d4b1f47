"""From a run to its scores: requests, samples, scoring, storing, comparing."""
