"""What text is made of: tokens and their positions, and the nodes of the tree."""

# What other rooms may use of this one.
DOOR = {
    "nodes": (
        "Attribute Block Body Call Expression ForObject ForTuple Index JsonBody JsonObject JsonProperty "
        "Label Literal ObjectCons Parentheses RelativeTraversal Splat SplatElement Step StringLiteral "
        "Template TemplateFor TemplateWrap Traversal TraverseAttribute TraverseIndex TupleCons Unary"
    ),
    "positions": "describe Positions",
    "scanner": "CLOSE_HEREDOC DIRECTIVE END INTERPOLATION OPEN_HEREDOC QUOTED_NEWLINE scan SEQUENCE_END",
    "token_stream": "CURLY_QUOTES",
}
