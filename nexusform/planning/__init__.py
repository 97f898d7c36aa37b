"""Configuration and prior state to a Plan. Pure; start reading at planner.py."""
