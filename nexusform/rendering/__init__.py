"""One report, many renderers. Formats never compute."""
