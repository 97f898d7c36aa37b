"""Live fleet hub: reading, server-side dry runs, and changes."""
