"""One file per command; the only code that writes to the screen."""

# What other rooms may use of this one.
DOOR = {
    "answers": "Answer AnswerFlags AnswerFormFlags tell",
    "apply": "verification_of",
    "arguments": "choice group number optional optional_choice positional positionals switch text texts",
    "commands": "command Entry LazyGroup trust_flags",
    "flags": "duration LockFlags place_of state_flag variable_flags ViewFlags",
    "interrupts": "graceful_interrupts",
    "main": "main",
    "plan": "exit_code limits_in Showing showing_of",
    "planning_flags": "PlacementFlags",
    "reconciling": "Comparison SOURCES",
    "report_flag": "parse_reports to_stdout write_report write_to_stdout",
    "screen": "input_allowed Screen",
}
