"""Who stands on the sites before a plan and after it, and what room each side leaves."""
