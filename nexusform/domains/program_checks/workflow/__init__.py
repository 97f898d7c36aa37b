"""Case files, answers of nexusform or another program, and their score."""
