"""HTML page of a plan, and its rack map as SVG."""

# Public names of the package, by module.
PUBLIC = {
    "domain_parts": "PageParts",
    "html_page": "build_page_content render_html build_script_placeholder render_page",
    "page_data": "Playback PlaybackStep build_simulation_data StepFigure",
    "page_parts": "build_section build_table",
    "rack_map": "MapMachine MapRack MapVm Mark OUTSIDE SiteMap",
    "svg_map": "render_document render_text MARGIN translate_parts render_svg",
    "svg_racks": "MAX_BYTES",
}
