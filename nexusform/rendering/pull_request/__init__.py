"""What a pull request shows: Markdown comments, SARIF and JUnit."""
