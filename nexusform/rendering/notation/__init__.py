"""How values, text and places are written: HCL, JSON, markup, colours, snippets of source."""

# What other rooms may use of this one.
DOOR = {
    "colours": "hang harmless indented Painter PLAIN wrap",
    "hcl_text": "hcl_value quoted scalar",
    "json_bounds": "drawn_document INTERVAL",
    "json_values": "encoded json_bytes spelled_out",
    "markup": "breakable data_script element joined Markup Part shape trusted_code",
    "places": "drawn_text fits_text",
}
