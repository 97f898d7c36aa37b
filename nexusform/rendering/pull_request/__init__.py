"""Contents of a pull request: Markdown comments, SARIF and JUnit."""

# Public names of the package, by module.
PUBLIC = {
    "junit": "JunitCase render_suites render_junit",
    "plan_comment": "render_markdown",
    "github_review": "parse_diff build_review",
    "sarif": "build_findings_document build_sarif_document",
    "report_markdown": "render_report_markdown",
}
