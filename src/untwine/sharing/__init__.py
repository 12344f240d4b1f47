"""Trained models for others: ONNX files, and folders with a model card for the Hugging Face hub."""
