"""What nexusform remembers. Pure: bytes come from and go to a backend."""
