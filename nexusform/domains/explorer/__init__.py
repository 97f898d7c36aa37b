"""`nexusform explore`: a plan to play with, in a browser on this machine."""
