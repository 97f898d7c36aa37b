"""Operations that connect configuration, planning, providers and state.

Subpackages lead to a plan and from it; other operations have a module each. Nothing
is printed here.
"""

# Public names of the package, by module.
PUBLIC = {
    "lint_advice": "LintAdvice find_advice",
    "expression_console": "ExpressionConsole is_unfinished open_console",
    "object_explanation": "explain_object Explanations VmExplanation",
    "file_formatting": "format_paths FormattingResult STDIN",
    "initialization": (
        "init_directory InitOptions find_missing_files install_modules write_first_file"
    ),
    "program_checks": "CHECKERS ProgramCheckProblem ProgramCheckOutcome add_program_checks",
}
