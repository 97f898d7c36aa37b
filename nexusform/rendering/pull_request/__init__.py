"""What a pull request shows: Markdown comments, SARIF and JUnit."""

# What other rooms may use of this one.
DOOR = {
    "junit": "Case junit_document render_junit",
    "markdown": "render_markdown",
    "review": "read_diff review_document",
    "sarif": "findings_document sarif_document",
}
