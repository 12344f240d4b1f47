"""The demo: β-VAE beside JL1-VAE on small pictures of dots, in minutes on two CPU cores."""

from untwine.experiments.demo.story import check_demo, finished, folder, run_demo

__all__ = ["check_demo", "finished", "folder", "run_demo"]
