"""One file per command; the only code that writes to the screen."""
