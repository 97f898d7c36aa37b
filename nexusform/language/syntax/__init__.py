"""Syntax: tokens with positions, and the nodes of the tree."""

# Public names of the package, by module.
PUBLIC = {
    "syntax_nodes": (
        "Attribute Block Body Call Expression ForObject ForTuple Index JsonBody JsonObject "
        "Label Literal ObjectCons Parentheses RelativeTraversal Splat SplatElement Step "
        "StringLiteral "
        "Template TemplateFor TemplateWrap Traversal TraverseAttribute TraverseIndex TupleCons "
        "Unary"
    ),
    "scanner": (
        "CLOSE_HEREDOC describe_span DIRECTIVE INTERPOLATION OPEN_HEREDOC CharacterPositions "
        "QUOTED_NEWLINE "
        "scan_text SEQUENCE_END"
    ),
    "token_stream": "CURLY_QUOTES",
}
