"""HTML page of a plan, and its rack map as SVG."""

# public names of the package, by module.
PUBLIC = {
    "html_page": "build_page_content render_html",
    "page_data": "DomainPageParts Playback PlaybackStep PoolEffect",
    "rack_map": "MapVm ChangeMark OUTSIDE SiteMap build_site_map",
    "svg_map": "MAX_BYTES render_document render_text MARGIN translate_parts render_svg",
    "report_page": "render_report_page",
    "page_elements": "build_section build_table render_page",
}
