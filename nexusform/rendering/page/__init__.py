"""HTML page of a plan, and its rack map as SVG."""

# public names of the package, by module.
PUBLIC = {
    "html_page": "build_page_content render_html",
    "page_data": "Playback PlaybackStep PoolEffect",
    "rack_map": "MapVm ChangeMark OUTSIDE SiteMap build_site_map",
    "svg_map": "render_svg",
    "report_page": "render_report_page",
    "page_elements": "build_section render_page",
}
