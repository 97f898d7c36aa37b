"""How values, text and places are written: HCL, JSON, markup, colours, snippets of source."""
