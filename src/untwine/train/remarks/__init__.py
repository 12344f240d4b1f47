"""What is said of a run: its title, its progress and time, what it would need, and reasons for doubt."""
