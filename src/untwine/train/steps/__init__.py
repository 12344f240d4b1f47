"""How a pack of members takes its training steps: examples, batches, models, the step, and its compiled form."""
