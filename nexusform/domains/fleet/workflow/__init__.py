"""Operations of the fleet domain."""
