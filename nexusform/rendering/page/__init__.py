"""HTML page of a plan, and its rack map as SVG."""

# Public names of the package, by module.
PUBLIC = {
    "html_page": "build_page_content render_html",
    "svg_map": "render_svg",
    "report_page": "render_report_page",
    "page_elements": "build_section render_page",
}
