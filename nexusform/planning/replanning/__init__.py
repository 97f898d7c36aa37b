"""Plans made once more: with a way out tried, or with everything known when apply begins."""
