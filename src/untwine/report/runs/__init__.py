"""What a trained run looks like: single pictures (`untwine show`), and a page about runs (`untwine report`)."""
