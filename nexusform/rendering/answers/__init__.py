"""Answers to questions (explain, simulate, advise, test): an outline, then text, Markdown or a page."""
