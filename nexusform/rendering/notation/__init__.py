"""Notation of values, text and locations: HCL, JSON, markup, colours."""

# Public names of the package, by module.
PUBLIC = {
    "colours": "wrap_hanging wrap_line Painter PLAIN wrap_lines",
    "hcl_text": "render_hcl_value quote_string format_scalar",
    "json_values": "encode_value encode_document escape_texts omit_empty",
    "markup": "build_data_script build_element Markup build_svg_element build_code_element",
    "sample_text": "describe_sampled_capacity describe_fit",
}
