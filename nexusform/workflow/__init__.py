"""The wiring: rooms for what leads to a plan and from it, a file for each other operation. Prints nothing."""

# What other rooms may use of this one.
DOOR = {
    "advise": "Advice find_advice",
    "console": "Console is_unfinished open_console",
    "explain": "explain Reason",
    "formatting": "decoded format_paths Formatting STDIN",
    "init": "init_directory InitOptions missing_files write_first_file",
}
