"""The engine behind `untwine reproduce`: what an experiment is, how it is run, judged and written down."""
