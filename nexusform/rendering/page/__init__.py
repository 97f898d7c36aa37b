"""The plan as one HTML page, and its map as SVG."""

# What other rooms may use of this one.
DOOR = {
    "domain_parts": "PageParts",
    "html_page": "page_content render_html scripted whole_page",
    "page_data": "Play PlayStep simulation_data StepFigure",
    "page_parts": "section table",
    "rack_map": "MapMachine MapRack MapVm Mark OUTSIDE SiteMap",
    "svg_map": "document lettering MARGIN moved render_svg",
    "svg_racks": "MOST_BYTES",
}
