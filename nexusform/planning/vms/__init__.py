"""Phase 4: who leaves, who is placed anew, who is new, and where they go. Start at vm_walk.py."""
