"""How fast training and metrics are, and what cheaper training costs in quality."""
