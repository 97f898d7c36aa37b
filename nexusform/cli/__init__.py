"""Command line, with a module per command.

No other package prints to the screen.
"""

# Public names of the package, by module.
PUBLIC = {
    "report_output": (
        "Answer PlanFileAnswerFlags AnswerFormatFlags is_document write_answer StateComparison "
        "COMPARISON_SOURCES"
    ),
    "apply": "parse_verification",
    "arguments": (
        "declare_choice declare_flag_group declare_number declare_optional_positional "
        "declare_optional_choice_flag declare_output_path_flag declare_positional "
        "declare_positionals declare_report_flags declare_switch_flag declare_text_flag "
        "declare_repeatable_text"
    ),
    "command_groups": "LazyGroup",
    "commands": "define_command",
    "shared_flags": (
        "parse_duration StateLockFlags create_context declare_state_flag declare_variable_flags "
        "ViewFlags declare_migration_flag is_confinement_disabled AfterReviewFlags parse_max_age "
        "declare_revocations_flag"
    ),
    "export": "Withdrawal withdraw_and_report",
    "interrupts": "handle_interrupts",
    "main": "main",
    "plan": "get_exit_code parse_limit_flags PlanDisplay create_plan_display",
    "planning_flags": "PlanDisplayFlags",
    "report_flag": "parse_reports has_stdout_report write_report write_to_stdout ReportFlag",
    "terminal_screen": "is_input_allowed Screen",
    "trust_flags": "get_trust_flags",
}
